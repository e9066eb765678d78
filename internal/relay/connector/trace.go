package connector

import (
	"bytes"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/traces"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// trace gives the record a span if its event is sampled. The span travels with the record through the producer, and
// comes back with the acknowledgement; one of a record that never gets there is forgotten.
func (r *reader) trace(rec *router.Record, pos offsets.Position) {
	s := r.c.cfg.Traces.Sample(traceparent(rec.Headers), rec.TraceID)
	if s == nil {
		return
	}
	s.EventID, s.Transaction = deadletter.EventID(rec.Headers), r.xid
	s.Commit, s.Position = pos.Commit.String(), pos.String()
	s.Committed, s.Read = r.commitTime, time.Now()
	rec.Tag = s
}

// traceparent is the header's value, nil if there is none. Debezium's JSON header converter puts it between quotes,
// and CloudEvents' extension "distributed tracing" has a name of its own.
func traceparent(headers []router.Header) []byte {
	for i := range headers {
		switch headers[i].Key {
		case "traceparent", "ce_traceparent":
			return bytes.Trim(headers[i].Value, `"`)
		}
	}
	return nil
}

// endSpans ends the spans of an acknowledged batch.
func (c *Connector) endSpans(d *sink.Delivery, now time.Time) {
	for _, t := range d.Tags {
		s, ok := t.Tag.(*traces.Span)
		if !ok {
			continue
		}
		s.Topic, s.Partition, s.Acked = d.Topic, d.Partition, now
		if d.BaseOffset >= 0 {
			s.Offset = d.BaseOffset + int64(t.Record)
		}
		c.cfg.Traces.End(s)
	}
}

// spanOf is the span of an event of the transaction with that commit time, nil if none of the batch's is.
func spanOf(tags []sink.Tag, commitTime time.Time) *traces.Span {
	for _, t := range tags {
		if s, ok := t.Tag.(*traces.Span); ok && s.Committed.Equal(commitTime) {
			return s
		}
	}
	return nil
}
