package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Registry frames the payload as Confluent's serializers do: a zero byte, the schema's id in four bytes, big endian,
// for Protobuf the index of the message in its schema, then the payload, which the application has encoded.
type Registry struct {
	SchemaIDColumn string // empty: no frame
	Format         string // avro, json, protobuf
}

func (g *Registry) validate(format string) error {
	if g.SchemaIDColumn == "" {
		return nil
	}
	if format != FormatPayload && format != FormatCloudEventsBinary {
		return configError("registry.schema_id_column", "Set router.format to payload or cloudevents_binary.",
			fmt.Errorf("a frame around the format %q can be read by no deserializer", format))
	}
	switch g.Format {
	case "avro", "json", "protobuf":
		return nil
	}
	return configError("registry.format", "", errors.New("is none of avro, json and protobuf"))
}

func (r *Router) framed(l *rowPlan, row pgoutput.Tuple, e *event) ([]byte, *router.RowError) {
	text, err := l.Text(row, l.schemaID)
	if err != nil {
		return nil, err
	}
	id, perr := strconv.ParseUint(string(text), 10, 31)
	if perr != nil {
		return nil, l.Refuse(row, router.BadValue, l.schemaID.Name, "the value is not the id of a schema",
			"Correct what the application writes there.")
	}
	start := len(r.buf)
	r.buf = binary.BigEndian.AppendUint32(append(r.buf, 0), uint32(id))
	if r.cfg.Registry.Format == "protobuf" {
		// The indexes of the message as a count and varints in zigzag form; the first message alone is a single zero.
		r.buf = append(r.buf, 0)
	}
	r.buf = append(r.buf, e.payload...)
	return r.buf[start:len(r.buf):len(r.buf)], nil
}
