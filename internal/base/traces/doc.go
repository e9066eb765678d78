// Package traces shows the relay's part in distributed traces: a span for each sampled event, from its arrival from the
// log to Kafka's acknowledgement, sent to an OpenTelemetry collector (OTLP).
//
// The span is a child of the span in whose context the event was written. The event's header traceparent names that
// context (W3C Trace Context). The header itself travels to Kafka byte for byte as it was written, so a consumer's span
// is a sibling of the relay's span and not its child. Rewriting the header would change the record: its size, its
// comparison with another relay's record, its equality with a repeat after a crash. A consumer's span would also be
// attached to a span that sampling here may never have sent.
//
// Nothing here may delay an event. Sample compares a few bytes. End puts a small struct into a bounded queue, and drops
// and counts it when the queue is full. Everything else happens in the one goroutine of Run.
//
// Confidential: a span names the event's id, topic, partition, offset and position; never key, payload or other
// headers.
package traces
