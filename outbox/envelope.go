package outbox

import (
	"encoding/json"
	"time"
)

// Envelope is the payload of an event that has a Version. It describes the event beside the data itself. The members
// are the same as the members of the relay's router.format envelope, so consumers can read both with this type:
//
//	var e outbox.Envelope[OrderPaid]
//	err := json.Unmarshal(record.Value, &e)
type Envelope[T any] struct {
	EventID       string    `json:"eventId"`
	EventType     string    `json:"eventType"`
	EventVersion  int       `json:"eventVersion"`
	AggregateType string    `json:"aggregateType"`
	AggregateID   string    `json:"aggregateId"`
	OccurredAt    time.Time `json:"occurredAt"`
	TraceID       string    `json:"traceId,omitempty"` // from the header traceparent
	Data          T         `json:"data"`
}

// wrapped returns the event with an envelope as its payload. A tombstone stays a tombstone.
func (e Event) wrapped(t PayloadType, extra map[string]string) Event {
	if e.ID == "" {
		e.ID = NewID()
	}
	if e.Timestamp.IsZero() {
		e.Timestamp = time.Now()
	}
	data, asIs := e.Payload, false
	switch p := e.Payload.(type) {
	case []byte:
		if asIs = p == nil; t == JSONB || t == JSON {
			data = json.RawMessage(p)
		} else if t == Text {
			data = string(p)
		} // bytea: base64, as json.Marshal does
	case json.RawMessage:
		asIs = p == nil
	case nil:
		asIs = true
	}
	if asIs {
		return e
	}
	trace, ok := e.Headers["traceparent"]
	if !ok {
		trace = extra["traceparent"]
	}
	e.Payload = Envelope[any]{
		EventID: e.ID, EventType: e.Type, EventVersion: e.Version,
		AggregateType: e.AggregateType, AggregateID: e.AggregateID,
		OccurredAt: e.Timestamp.UTC().Truncate(time.Microsecond), TraceID: traceID(trace), Data: data,
	}
	return e
}

// traceID extracts the trace ID from a traceparent (W3C Trace Context): 00-<trace id>-<parent id>-<flags>.
func traceID(traceparent string) string {
	if len(traceparent) < 36 || traceparent[2] != '-' || traceparent[35] != '-' {
		return ""
	}
	return traceparent[3:35]
}
