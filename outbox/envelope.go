package outbox

import (
	"encoding/json"
	"time"
)

// Envelope is the payload of an event with a Version: what happened, and to what, beside the data itself. Its members are those of the relay's
// router.format envelope, so that consumers read both with it:
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
	TraceID       string    `json:"traceId,omitempty"` // of the header traceparent
	Data          T         `json:"data"`
}

// wrapped returns the event with an envelope as its payload. A tombstone stays one.
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
		EventID: e.ID, EventType: e.Type, EventVersion: e.Version, AggregateType: e.AggregateType, AggregateID: e.AggregateID,
		OccurredAt: e.Timestamp.UTC().Truncate(time.Microsecond), TraceID: traceID(trace), Data: data,
	}
	return e
}

// traceID takes it out of a traceparent (W3C Trace Context): 00-<trace id>-<parent id>-<flags>.
func traceID(traceparent string) string {
	if len(traceparent) < 36 || traceparent[2] != '-' || traceparent[35] != '-' {
		return ""
	}
	return traceparent[3:35]
}
