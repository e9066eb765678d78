package debezium

import (
	"errors"

	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
)

// The words for Connect's converters.
const (
	converterString     = "string"
	converterSimple     = "simple"
	converterJSON       = "json"
	converterJSONSchema = "json_with_schema"
	converterBinary     = "binary"
)

var errNotBytes = errors.New("the converter binary writes bytes only; use a bytea column, or another converter")

// converter writes values of one schema as one of Connect's converters does.
type converter struct {
	kind   string
	prefix []byte // json_with_schema: all up to the payload
}

func newConverter(kind string, s *connect.Schema) converter {
	c := converter{kind: kind}
	if kind == converterJSONSchema {
		c.prefix = schemaPrefix(s)
	}
	return c
}

// schemaPrefix is for a value without a schema if s is nil.
func schemaPrefix(s *connect.Schema) []byte {
	if s == nil {
		return []byte(`{"schema":null,"payload":`)
	}
	return append(s.AppendJSON([]byte(`{"schema":`)), `,"payload":`...)
}

// plain reports whether text stays as it is.
func (c *converter) plain() bool { return c.kind == converterString || c.kind == converterSimple }

// nullIsNil reports whether a null becomes nil; JsonConverter writes a null as JSON.
func (c *converter) nullIsNil() bool { return c.kind != converterJSON && c.kind != converterJSONSchema }

// append writes the value; if nullIsNil holds it must not be null.
func (c *converter) append(dst []byte, v *connect.Value) []byte {
	switch c.kind {
	case converterJSON:
		return connect.AppendJSON(dst, v)
	case converterJSONSchema:
		return append(connect.AppendJSON(append(dst, c.prefix...), v), '}')
	case converterSimple:
		return connect.AppendHeader(dst, v)
	case converterBinary:
		return append(dst, v.Data...)
	default:
		return connect.AppendString(dst, v)
	}
}
