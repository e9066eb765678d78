// Package oteloutbox puts the trace context of OpenTelemetry into events, so that the relay's and the consumer's spans join the
// trace in which the event was written:
//
//	box, err := outbox.New(outbox.Options{Headers: oteloutbox.Headers})
//
// It uses OpenTelemetry's API alone; which SDK, if any, records the spans is the application's choice.
package oteloutbox

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
)

// Headers returns the headers traceparent and tracestate of the span in ctx (W3C Trace Context), none where there is no span.
// It does not ask the global propagator: the relay reads traceparent, whatever the application uses towards others.
// Baggage stays at home: a topic has more readers than a request.
func Headers(ctx context.Context) map[string]string {
	var headers propagation.MapCarrier
	propagation.TraceContext{}.Inject(ctx, lazily{&headers})
	return headers
}

// lazily makes the map with the first header.
type lazily struct{ headers *propagation.MapCarrier }

func (l lazily) Get(key string) string { return l.headers.Get(key) }
func (l lazily) Keys() []string        { return l.headers.Keys() }

func (l lazily) Set(key, value string) {
	if *l.headers == nil {
		*l.headers = propagation.MapCarrier{}
	}
	l.headers.Set(key, value)
}
