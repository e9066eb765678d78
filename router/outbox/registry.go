package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/layout"
)

// Registry frames the payload as Confluent's serializers do: a zero byte, the schema's id in four bytes, big endian,
// for Protobuf the indexes of the message in its schema, then the payload. The id is in a column, and the application
// has encoded the payload, or Schemas has the id by the subject and the version, and perhaps an encoder.
type Registry struct {
	SchemaIDColumn string // of the id itself
	Subject        string // template, in place of SchemaIDColumn. Both empty: no frame
	VersionColumn  string // of the subject's version: a number, or latest; empty: latest
	Schemas        router.Schemas

	Format               string // avro, json, protobuf
	MessageIndexes       string // of a Protobuf message, as in "1,0"; empty: the first message
	MessageIndexesColumn string // of the indexes in the same form; NULL: MessageIndexes
}

const (
	// maxSubject is the length of the longest subject that is asked for, in bytes. The part of an address that names it
	// may be three times as long, and servers take some 8,000 bytes.
	maxSubject = 1000
	// maxMessageIndexes is how deep messages may be nested: as deep as protoc allows.
	maxMessageIndexes = 32
)

// framed reports whether there is a frame.
func (g *Registry) framed() bool { return g.SchemaIDColumn != "" || g.Subject != "" }

func (g *Registry) validate(format string) error {
	if !g.framed() {
		return nil
	}
	key := "registry.schema_id_column"
	if g.Subject != "" {
		key = "registry.subject"
	}
	if format != FormatPayload && format != FormatCloudEventsBinary {
		return configError(key, "Set router.format to payload or cloudevents_binary.",
			fmt.Errorf("a frame around the format %q can be read by no deserializer", format))
	}
	if g.SchemaIDColumn != "" && g.Subject != "" {
		return configError(key, "Remove one of them.", errors.New("it is set together with "+
			"router.registry.schema_id_column, and an id comes from one of the two"))
	}
	switch g.Format {
	case "avro", "json", "protobuf":
		return nil
	}
	return configError("registry.format", "", errors.New("is none of avro, json and protobuf"))
}

// frames puts the frame in front of payloads.
type frames struct {
	subject []part // empty: the id is in a column
	schemas router.Schemas
	indexes []byte // of the message, encoded, unless the row has its own; nil: the format has none
	buf     []byte // of a subject
}

// setRegistry compiles the settings.
func (r *Router) setRegistry() error {
	g := &r.cfg.Registry
	if err := g.validate(r.cfg.Format); err != nil || !g.framed() {
		return err
	}
	r.frames.schemas = g.Schemas
	var errs []error
	if g.Subject != "" {
		var err error
		r.frames.subject, err = parseSubject(g.Subject)
		if err == nil {
			err = absentRole(r.frames.subject, r.cfg.Columns)
		}
		errs = append(errs, configError("registry.subject", "Write a template such as ${topic}-value.", err))
	}
	if g.Format == "protobuf" {
		var err error
		if r.frames.indexes, err = appendIndexes([]byte{}, g.MessageIndexes); err != nil {
			errs = append(errs, configError("registry.message_indexes", `Write the indexes with commas, as in "1,0".`,
				err))
		}
	}
	return errors.Join(errs...)
}

// parseSubject parses the template of a subject, which may be any text.
func parseSubject(template string) ([]part, error) {
	return parseParts(template, subjectPlaceholders, func(text string) error {
		for i := range len(text) {
			if text[i] < ' ' || text[i] == 0x7f {
				return errors.New("it has a control character")
			}
		}
		return nil
	})
}

// appendIndexes encodes the indexes of a message: a count and varints in zigzag form, where the first message alone is
// a single zero.
func appendIndexes(dst []byte, text string) ([]byte, error) {
	text = strings.Trim(text, "[] ")
	if text == "" || text == "0" {
		return append(dst, 0), nil
	}
	dst = binary.AppendVarint(dst, int64(strings.Count(text, ",")+1))
	n := 0
	for one := range strings.SplitSeq(text, ",") {
		index, err := strconv.ParseUint(strings.TrimSpace(one), 10, 31)
		if n++; err != nil || n > maxMessageIndexes {
			return nil, errIndexes
		}
		dst = binary.AppendVarint(dst, int64(index))
	}
	return dst, nil
}

var errIndexes = errors.New("it is not the indexes of a message")

// frame puts the frame in front of the payload.
func (r *Router) frame(l *rowPlan, row pgoutput.Tuple, topic string, payload []byte) ([]byte, router.Schema, error) {
	schema, err := r.schema(l, row, topic)
	if err != nil {
		return nil, router.Schema{}, err
	}
	start := len(r.buf)
	r.buf = binary.BigEndian.AppendUint32(append(r.buf, 0), uint32(schema.ID))
	message := len(r.buf)
	if r.frames.indexes != nil {
		if rerr := r.appendMessage(l, row); rerr != nil {
			return nil, router.Schema{}, rerr
		}
	}
	if schema.Encoder == nil {
		r.buf = append(r.buf, payload...)
	} else {
		buf, err := schema.Encoder.Append(r.buf, r.buf[message:], payload)
		if err != nil {
			return nil, router.Schema{}, l.misfit(row, schema.ID, err)
		}
		r.buf = buf
	}
	return r.buf[start:len(r.buf):len(r.buf)], schema, nil
}

// misfit refuses a payload that is not a document of its schema. The encoder's error has no value of it.
func (l *rowPlan) misfit(row pgoutput.Tuple, id int32, err error) *router.RowError {
	return l.Refuse(row, router.PayloadDoesNotFit, l.payload.Name, fmt.Sprintf("the payload does not fit the schema "+
		"with the id %d: %s", id, err), "Correct what the application writes there, or register a version of the "+
		"schema that it fits.")
}

// appendMessage names the message within its schema.
func (r *Router) appendMessage(l *rowPlan, row pgoutput.Tuple) *router.RowError {
	text, rerr := l.Optional(row, l.message)
	if rerr != nil {
		return rerr
	}
	if text == nil {
		r.buf = append(r.buf, r.frames.indexes...)
		return nil
	}
	buf, err := appendIndexes(r.buf, string(text))
	if err != nil {
		return l.Refuse(row, router.BadValue, l.message.Name, "the value is not the indexes of a Protobuf message",
			"Correct what the application writes there: numbers from 0 with commas, as in 1,0.")
	}
	r.buf = buf
	return nil
}

// schema is the payload's schema. The error is a *RowError or a *router.UnresolvedSchema.
func (r *Router) schema(l *rowPlan, row pgoutput.Tuple, topic string) (router.Schema, error) {
	if len(r.frames.subject) > 0 {
		return r.lookup(l, row, topic)
	}
	text, err := l.Text(row, l.schemaID)
	if err != nil {
		return router.Schema{}, err
	}
	id, perr := strconv.ParseUint(string(text), 10, 31)
	if perr != nil {
		return router.Schema{}, l.Refuse(row, router.BadValue, l.schemaID.Name, "the value is not the id of a schema",
			"Correct what the application writes there.")
	}
	return router.Schema{ID: int32(id)}, nil
}

func (r *Router) lookup(l *rowPlan, row pgoutput.Tuple, topic string) (router.Schema, error) {
	f := &r.frames
	version, rerr := l.schemaVersion(row)
	if rerr != nil {
		return router.Schema{}, rerr
	}
	subject, rerr := l.expand(f.buf[:0], f.subject, l.subject, row, topic)
	if rerr != nil {
		return router.Schema{}, rerr
	}
	if f.buf = subject; len(subject) > maxSubject || string(subject) == "." || string(subject) == ".." {
		f.buf = nil
		return router.Schema{}, l.Refuse(row, router.BadValue, "", fmt.Sprintf("the subject of its schema is "+
			"longer than %d bytes, or consists of dots", maxSubject),
			"Correct router.registry.subject, or what the application writes into its columns.")
	}
	if f.schemas == nil {
		return router.Schema{}, &router.UnresolvedSchema{Subject: string(subject), Version: version}
	}
	schema, answer := f.schemas.Schema(subject, version)
	detail := ""
	switch answer {
	case router.SchemaKnown:
		return schema, nil
	case router.SchemaNoSubject:
		detail = fmt.Sprintf("the schema registry has no subject %q", subject)
	case router.SchemaNoVersion:
		detail = fmt.Sprintf("the schema registry has no version %s of subject %q", version, subject)
	default:
		return router.Schema{}, &router.UnresolvedSchema{Subject: string(subject), Version: version}
	}
	return router.Schema{}, l.Refuse(row, router.UnknownSchema, r.cfg.Registry.VersionColumn, detail,
		"Register the schema: publishing continues automatically then. Or correct router.registry.subject.")
}

func (l *rowPlan) withoutSubject(row pgoutput.Tuple, f layout.Field) *router.RowError {
	return l.Refuse(row, router.BadValue, f.Name, "the value is NULL or empty, so the payload's schema has no subject",
		"Declare the column NOT NULL with a CHECK that it is not empty, so that no more such rows come.")
}

// schemaVersion is the version that the row names.
func (l *rowPlan) schemaVersion(row pgoutput.Tuple) (router.SchemaVersion, *router.RowError) {
	if l.schemaVer.Index < 0 {
		return router.LatestSchema, nil
	}
	text, err := l.Text(row, l.schemaVer)
	if err != nil {
		return 0, err
	}
	if string(text) == "latest" {
		return router.LatestSchema, nil
	}
	n, perr := strconv.ParseUint(string(text), 10, 31)
	if perr != nil || n == 0 {
		return 0, l.Refuse(row, router.BadValue, l.schemaVer.Name, "the value is not the version of a schema",
			"Correct what the application writes there: a number from 1, or latest.")
	}
	return router.SchemaVersion(n), nil
}
