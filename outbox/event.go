package outbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Event is one row of the outbox.
type Event struct {
	// ID identifies the event to its consumers, in the canonical text form of a UUID. Default: a new UUIDv7.
	ID string
	// AggregateType names the kind of thing the event is about. The topic is derived from it: "order" ->
	// "order.events". 1 to 200 characters of [a-zA-Z0-9._-], not starting with "__".
	AggregateType string
	// AggregateID is the record's key. Events with the same key stay in order. Not empty.
	AggregateID string
	// Type says what happened, for example "order_paid". Not empty.
	Type string
	// Payload becomes the record's value. []byte and json.RawMessage are written unchanged, and so is a string in a
	// text or bytea column. Every other value is marshalled to JSON. nil is a tombstone, and so is a nil []byte or
	// json.RawMessage.
	Payload any
	// Version of the event's data. If it is not 0, the payload is wrapped in an Envelope, which also contains the time.
	Version int
	// Headers become the record's headers. At most 256 headers and 64 KiB. The names id, type and position are
	// reserved.
	Headers map[string]string
	// Timestamp becomes the record's timestamp, in whole microseconds, 1970 to 9999. Default: the time at which the
	// transaction began.
	Timestamp time.Time
}

// EventError reports which event of an Insert call was refused and why. Nothing was sent to Postgres, so the
// transaction can go on. The error contains no payload and no header values.
type EventError struct {
	Index  int    // of the event in the call's arguments
	Field  string // of Event
	Detail string // the problem
	Err    error  // the cause, e.g. of json.Marshal; may be nil
}

func (e *EventError) Error() string {
	text := fmt.Sprintf("outbox: event %d: %s: %s", e.Index, e.Field, e.Detail)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *EventError) Unwrap() error { return e.Err }

// The limits are the same as the connector's (package router); a test compares the two. A topic's name has at most 249
// characters, and maxAggregateType leaves room for the text that the topic template adds.
const (
	maxAggregateType = 200
	maxHeaders       = 256
	maxHeaderBytes   = 64 << 10
)

func invalid(field, format string, args ...any) *EventError {
	return &EventError{Field: field, Detail: fmt.Sprintf(format, args...)}
}

func (e *Event) validate() *EventError {
	if e.ID != "" && !isUUID(e.ID) {
		return invalid("ID", "not a UUID in its canonical form of 36 characters")
	}
	if err := checkAggregateType(e.AggregateType); err != nil {
		return err
	}
	for _, f := range []struct{ name, text string }{{"AggregateID", e.AggregateID}, {"Type", e.Type}} {
		if f.text == "" {
			return invalid(f.name, "empty")
		}
		if err := checkText(f.name, f.text); err != nil {
			return err
		}
	}
	if e.Version < 0 {
		return invalid("Version", "negative")
	}
	if t := e.Timestamp; !t.IsZero() && (t.Unix() < 0 || t.UTC().Year() > 9999) {
		return invalid("Timestamp", "outside of 1970 to 9999")
	}
	return nil
}

func checkAggregateType(s string) *EventError {
	const field = "AggregateType"
	switch {
	case s == "":
		return invalid(field, "empty")
	case len(s) > maxAggregateType:
		return invalid(field, "longer than %d characters", maxAggregateType)
	case s == "." || s == "..":
		return invalid(field, `"." and ".." are not valid topic names`)
	case strings.HasPrefix(s, "__"):
		return invalid(field, `topics whose names start with "__" are internal to Kafka`)
	}
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return invalid(field, "%U is not allowed in a topic's name, which consists of [a-zA-Z0-9._-]", c)
		}
	}
	return nil
}

// checkText refuses NUL and invalid UTF-8, as Postgres does. A refusal by Postgres would abort the whole transaction.
func checkText(field, s string) *EventError {
	if strings.ContainsRune(s, 0) {
		return invalid(field, "contains a NUL character, which Postgres cannot store")
	}
	if !utf8.ValidString(s) {
		return invalid(field, "not valid UTF-8")
	}
	return nil
}

// headerText returns the headers as JSON, nil for none. The headers of extra are added, unless the event has its own.
func (e *Event) headerText(extra map[string]string) (*string, *EventError) {
	if len(e.Headers)+len(extra) == 0 {
		return nil, nil
	}
	all := make(map[string]string, len(e.Headers)+len(extra))
	for _, source := range []map[string]string{extra, e.Headers} {
		for name, value := range source {
			all[name] = value
		}
	}
	size := 0
	for name, value := range all {
		if err := checkHeader(name, value); err != nil {
			return nil, err
		}
		size += len(name) + len(value)
	}
	if len(all) > maxHeaders || size > maxHeaderBytes {
		return nil, invalid("Headers", "more than %d headers or %d bytes", maxHeaders, maxHeaderBytes)
	}
	b, err := json.Marshal(all)
	if err != nil {
		return nil, &EventError{Field: "Headers", Detail: "cannot be marshalled to JSON", Err: err}
	}
	text := string(b)
	return &text, nil
}

func checkHeader(name, value string) *EventError {
	switch name {
	case "":
		return invalid("Headers", "a name is empty")
	case "id", "type", "position":
		return invalid("Headers", "the name %q is reserved", name)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return invalid("Headers", "a name contains the control character %U", r)
		}
	}
	if err := checkText("Headers", name); err != nil {
		return err
	}
	return checkText("Headers", value)
}
