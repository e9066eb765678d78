// Package otelinbox creates an OpenTelemetry span for each attempt to handle an event and joins it to the event's
// trace:
//
//	c, err := consumer.New(consumer.Options{…, Start: otelinbox.Start(nil, "billing")}, handler)
//
// The package uses only OpenTelemetry's API. The application chooses the SDK that records the spans, if any.
//
// This package is an API that applications rely on; package inbox describes the compatibility promise.
package otelinbox

import (
	"context"
	"errors"
	"strconv"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

const scope = "github.com/cdc-outbox/cdc-outbox/inbox"

// Start returns a function for consumer.Options.Start. The span is a child of the span in which the event was written,
// which the record's traceparent names. (The relay does not change traceparent, so the relay's own span is a sibling.)
// Without a valid traceparent the span begins a trace. A nil provider means the global provider at the time of each
// attempt.
//
// The handler's context contains the span. An event that was handled before, or is being handled elsewhere, is not an
// error.
func Start(
	provider trace.TracerProvider, group string,
) func(context.Context, consumer.Message) (context.Context, func(error)) {
	return func(ctx context.Context, m consumer.Message) (context.Context, func(error)) {
		p := provider
		if p == nil {
			p = otel.GetTracerProvider()
		}
		ctx = propagation.TraceContext{}.Extract(ctx, carrier{&m})
		kind := trace.WithSpanKind(trace.SpanKindConsumer)
		ctx, span := p.Tracer(scope).Start(ctx, "process "+m.Topic, kind, trace.WithAttributes(
			// The names of OpenTelemetry's conventions for messaging.
			attribute.String("messaging.system", "kafka"),
			attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.operation.name", "process"),
			attribute.String("messaging.destination.name", m.Topic),
			attribute.String("messaging.destination.partition.id", strconv.Itoa(m.Partition)),
			attribute.Int64("messaging.kafka.offset", m.Offset),
			attribute.String("messaging.consumer.group.name", group),
			attribute.String("messaging.message.id", m.ID),
			attribute.Int("cdc_outbox.attempt", m.Attempt),
		))
		return ctx, func(err error) {
			endSpan(span, err)
		}
	}
}

func endSpan(span trace.Span, err error) {
	defer span.End()
	switch {
	case err == nil:
	case errors.Is(err, inbox.ErrDuplicate):
		span.SetAttributes(attribute.String("cdc_outbox.result", "duplicate"))
	case errors.Is(err, inbox.ErrContended):
		span.SetAttributes(attribute.String("cdc_outbox.result", "contended"))
	default:
		span.RecordError(err)
		span.SetStatus(codes.Error, "")
	}
}

// carrier reads the record's headers.
type carrier struct{ m *consumer.Message }

func (c carrier) Get(key string) string { return string(c.m.Header(key)) }

func (c carrier) Keys() []string {
	keys := make([]string, len(c.m.Headers))
	for i := range c.m.Headers {
		keys[i] = c.m.Headers[i].Key
	}
	return keys
}

// Set is for writers.
func (c carrier) Set(string, string) {}
