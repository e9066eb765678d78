// Package oteloutbox adds the trace context of OpenTelemetry to events, so that the spans of the relay and of the
// consumer join the trace in which the event was written:
//
//	box, err := outbox.New(outbox.Options{Headers: oteloutbox.Headers})
//
// The package uses only OpenTelemetry's API. The application chooses the SDK that records the spans, if any.
//
// This package is an API that applications rely on; package outbox describes the compatibility promise.
package oteloutbox

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
)

// Headers returns the headers traceparent and tracestate of the span in ctx (W3C Trace Context), nil if there is no
// span. It does not use the global propagator: the relay reads traceparent, whatever format the application uses
// elsewhere. Baggage is not sent, because a topic has more readers than a request.
func Headers(ctx context.Context) map[string]string {
	var headers propagation.MapCarrier
	propagation.TraceContext{}.Inject(ctx, lazily{&headers})
	return headers
}

// lazily creates the map with the first header.
type lazily struct{ headers *propagation.MapCarrier }

func (l lazily) Get(key string) string { return l.headers.Get(key) }
func (l lazily) Keys() []string        { return l.headers.Keys() }

func (l lazily) Set(key, value string) {
	if *l.headers == nil {
		*l.headers = propagation.MapCarrier{}
	}
	l.headers.Set(key, value)
}
