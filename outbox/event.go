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
	// AggregateType names the kind of thing the event is about and so the topic, "order" -> "order.events": 1 to
	// 200 characters of [a-zA-Z0-9._-], not starting with "__".
	AggregateType string
	// AggregateID is the record's key: events with the same one stay in order. Not empty.
	AggregateID string
	// Type says what happened, "order_paid". Not empty.
	Type string
	// Payload becomes the record's value. []byte and json.RawMessage are taken as they are, everything else is
	// marshalled to JSON; in a text or bytea column a string is taken as it is, too. nil, also a nil slice of the
	// two types named, is a tombstone.
	Payload any
	// Version of the event's data. If it isn't 0, the payload is put into an Envelope, which then gives the time as well.
	Version int
	// Headers travel as the record's headers. At most 256 and 64 KiB; id, type and position are reserved.
	Headers map[string]string
	// Timestamp becomes the record's timestamp, in whole microseconds; 1970 to 9999. Default: the time the
	// transaction began.
	Timestamp time.Time
}

// EventError says which event of an Insert call was refused and why. Nothing has been sent to Postgres then, so the
// transaction is still good. It holds no payload and no header values.
type EventError struct {
	Index  int    // of the event in the call's arguments
	Field  string // of Event
	Detail string // what is wrong
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

// The limits are the connector's (package router); a test compares the two. maxAggregateType leaves room for what the
// topic template adds, as a topic's name has at most 249 characters.
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
		return invalid(field, `"." and ".." make no topic`)
	case strings.HasPrefix(s, "__"):
		return invalid(field, `topics whose names start with "__" are internal to Kafka`)
	}
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return invalid(field, "%U can't be part of a topic's name; it consists of [a-zA-Z0-9._-]", c)
		}
	}
	return nil
}

// checkText finds what Postgres refuses in any text, which would cost the whole transaction.
func checkText(field, s string) *EventError {
	if strings.ContainsRune(s, 0) {
		return invalid(field, "holds a NUL character, which Postgres can't store")
	}
	if !utf8.ValidString(s) {
		return invalid(field, "not valid UTF-8")
	}
	return nil
}

// headerText returns the headers as JSON, nil for none. Those of extra come on top, but don't replace the event's own.
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
		return nil, invalid("Headers", "more than %d headers or %d bytes of them", maxHeaders, maxHeaderBytes)
	}
	b, err := json.Marshal(all)
	if err != nil {
		return nil, &EventError{Field: "Headers", Detail: "no JSON", Err: err}
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
			return invalid("Headers", "a name holds the control character %U", r)
		}
	}
	if err := checkText("Headers", name); err != nil {
		return err
	}
	return checkText("Headers", value)
}
