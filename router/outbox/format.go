package outbox

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
)

// event holds a row's parts before a format encodes them.
type event struct {
	id, kind  []byte
	payload   []byte // nil: a tombstone, in every format
	timestamp int64
	headers   []router.Header
	trace     []byte        // trace id, if the envelope names one
	schema    router.Schema // in the frame
}

// setFormat checks the settings of the format in force.
func (r *Router) setFormat() error {
	switch r.cfg.Format {
	case "":
		r.cfg.Format = FormatPayload
	case FormatPayload, FormatEnvelope:
	case FormatCloudEventsBinary, FormatCloudEventsStructured:
		if err := r.setCloudEvents(); err != nil {
			return err
		}
	default:
		return configError("format", "",
			fmt.Errorf("%q is none of payload, envelope, cloudevents_binary and cloudevents_structured", r.cfg.Format))
	}
	return r.setRegistry()
}

// form gives the value the configured form, and adds the headers that belong to it.
func (r *Router) form(l *rowPlan, row pgoutput.Tuple, topic string, e *event) ([]byte, error) {
	switch r.cfg.Format {
	case FormatEnvelope:
		return asError(r.envelope(l, row, e))
	case FormatCloudEventsStructured:
		return asError(r.structured(l, row, e))
	case FormatCloudEventsBinary:
		if err := r.binaryHeaders(l, row, e); err != nil {
			return nil, err
		}
	}
	if r.cfg.Registry.framed() && e.payload != nil {
		value, schema, err := r.frame(l, row, topic, e.payload)
		e.schema = schema
		return value, err
	}
	return e.payload, nil
}

// asError keeps a nil *RowError out of an interface.
func asError(value []byte, err *router.RowError) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return value, nil
}

// isJSON reports whether the column's type is json or jsonb, so that its text can be part of a JSON document as it is.
func isJSON(f layout.Field) bool { return f.Oid == layout.OIDJSON || f.Oid == layout.OIDJSONB }

// appendInstant writes milliseconds since 1970 as RFC 3339 in UTC.
func appendInstant(dst []byte, ms int64) []byte {
	return time.UnixMilli(ms).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00")
}

// appendMember writes ,"name":"text", for nil null.
func appendMember(dst []byte, name string, text []byte) []byte {
	dst = append(connect.AppendQuoted(append(dst, ','), name), ':')
	if text == nil {
		return append(dst, "null"...)
	}
	return connect.AppendQuoted(dst, text)
}

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

var errNotJSON = errors.New("the payload is not JSON, as router.cloudevents.data_content_type says it is")

// checkJSON is for payload columns that hold text of any kind.
func (l *rowPlan) checkJSON(row pgoutput.Tuple, payload []byte) *router.RowError {
	if isJSON(l.payload) || json.Valid(payload) {
		return nil
	}
	return l.Refuse(row, router.BadValue, l.payload.Name, errNotJSON.Error(),
		"Correct what the application writes there, or the content type.")
}
