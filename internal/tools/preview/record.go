package preview

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Record is a row's record, or why the row cannot become one. It shares no memory with the row.
type Record struct {
	Table     string `json:"table"`
	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"` // nil: the partition is chosen by the key

	Key       *string    `json:"key"`
	KeyBase64 []byte     `json:"key_base64,omitempty"` // in place of Key, if it is not a text
	Timestamp *time.Time `json:"timestamp,omitempty"`
	Headers   []Header   `json:"headers,omitempty"`

	SchemaID    int32   `json:"schema_id,omitempty"` // in the frame of a schema registry, with which the value begins
	Value       *string `json:"value"`               // null: a tombstone
	ValueBase64 []byte  `json:"value_base64,omitempty"`
	Decoded     *string `json:"decoded,omitempty"` // the value after the frame, if the relay has encoded it

	Position string  `json:"position,omitempty"` // commit LSN and index; empty if the row was read from the table
	Bad      *BadRow `json:"bad_row,omitempty"`
}

// Header is a record's header.
type Header struct {
	Name        string  `json:"name"`
	Value       *string `json:"value"`
	ValueBase64 []byte  `json:"value_base64,omitempty"`
}

// BadRow is why a row cannot become a record.
type BadRow struct {
	EventID string        `json:"event_id"`
	Reason  router.Reason `json:"reason"`
	Detail  string        `json:"detail"`
	Next    string        `json:"next"`
	Policy  string        `json:"policy"` // the relay's policy for it
}

// recordCopy is the record's copy for people.
func recordCopy(table string, r *router.Record) *Record {
	at := time.UnixMilli(r.Timestamp).UTC()
	p := &Record{Table: table, Topic: r.Topic, Timestamp: &at, SchemaID: r.SchemaID}
	if r.Partition >= 0 {
		partition := r.Partition
		p.Partition = &partition
	}
	p.Key, p.KeyBase64 = text(r.Key)
	p.Value, p.ValueBase64 = text(r.Value)
	p.Decoded = decoded(r)
	for _, h := range r.Headers {
		v, raw := text(h.Value)
		p.Headers = append(p.Headers, Header{h.Key, v, raw})
	}
	return p
}

// decoded is the payload as consumers can read it, nil if the relay has not encoded it.
func decoded(r *router.Record) *string {
	const frame = 5 // bytes of a zero and the id
	if r.Encoder == nil || len(r.Value) < frame {
		return nil
	}
	s := "cannot be decoded"
	if document, err := r.Encoder.JSON(r.Value[frame:]); err == nil {
		s = string(document)
	}
	return &s
}

// text is a value as a text, or as bytes if it is not a text. A nil value is neither.
func text(b []byte) (*string, []byte) {
	switch {
	case b == nil:
		return nil, nil
	case !utf8.Valid(b):
		return nil, append([]byte{}, b...)
	}
	s := string(b)
	return &s, nil
}

// routed makes the record of a row. The error is about the router's own questions to the catalogs, not about the row.
func (o *Options) routed(table string, rec *router.Record, err error) (*Record, error) {
	var bad *router.RowError
	switch {
	case errors.As(err, &bad):
		return &Record{Table: table, Bad: &BadRow{
			EventID: bad.EventID, Reason: bad.Reason, Detail: bad.Detail, Next: bad.Remedy,
			Policy: string(o.Policies.For(bad.Reason)),
		}}, nil
	case err != nil:
		return nil, err
	}
	return recordCopy(table, rec), nil
}

// JSON writes the record as a line of JSON.
func (r *Record) JSON(w io.Writer) error {
	e := json.NewEncoder(fault.Escaping{W: w})
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// Text writes the record for a person, without sequences that a terminal would obey.
func (r *Record) Text(w io.Writer) error {
	var b strings.Builder
	line := func(label, value string) { fmt.Fprintf(&b, "%-10s  %s\n", label, value) }
	line("table", fault.Printable(r.Table))
	if r.Bad != nil {
		line("event", fault.Printable(r.Bad.EventID))
		line("bad row", fmt.Sprintf("%s (%s)", fault.Printable(r.Bad.Detail), r.Bad.Reason))
		line("policy", r.Bad.Policy)
		line("next", r.Bad.Next)
		_, err := io.WriteString(w, b.String())
		return err
	}
	line("topic", fault.Printable(r.Topic))
	partition := "chosen by the key"
	if r.Partition != nil {
		partition = fmt.Sprint(*r.Partition)
	}
	line("partition", partition)
	line("key", displayText(r.Key, r.KeyBase64))
	line("timestamp", human.Stamp(*r.Timestamp))
	label := "headers"
	for _, h := range r.Headers {
		line(label, fault.Printable(h.Name)+": "+displayText(h.Value, h.ValueBase64))
		label = ""
	}
	if r.SchemaID != 0 {
		line("schema id", fmt.Sprint(r.SchemaID))
	}
	line("value", displayText(r.Value, r.ValueBase64))
	if r.Decoded != nil {
		line("decoded", fault.Printable(*r.Decoded))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func displayText(s *string, raw []byte) string {
	switch {
	case raw != nil:
		return fmt.Sprintf("%d bytes that are not a text; --json has them in base64", len(raw))
	case s == nil:
		return "null"
	}
	return fault.Printable(*s)
}
