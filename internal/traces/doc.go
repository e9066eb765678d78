// Package traces shows the relay's part in distributed traces: a span for each sampled event, from its arrival out of the log to
// Kafka's acknowledgement, sent to an OpenTelemetry collector (OTLP).
//
// The span is a child of the span in whose context the event was written, which the event's header traceparent names (W3C Trace
// Context). The header itself travels to Kafka byte for byte as it was written, so a consumer's span is a sibling of the
// relay's and not its child: rewriting it would change the record (its size, its comparison with what another relay made, a
// repeat's sameness after a crash), and a consumer would hang below a span that sampling here may never have sent.
//
// Nothing here may hold up an event. Sample is a comparison of some bytes; End puts a small struct into a bounded queue and
// drops it, counted, when the queue is full; all else happens in one goroutine, Run's.
//
// Confidential: a span names the event's id, topic, partition, offset and position; never key, payload or other headers.
package traces
