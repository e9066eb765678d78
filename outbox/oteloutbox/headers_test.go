package oteloutbox

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"
)

func TestHeaders(t *testing.T) {
	require.Nil(t, Headers(t.Context()), "no span")
	state, err := trace.ParseTraceState("a=1")
	require.NoError(t, err)
	member, err := baggage.NewMember("user", "u-1")
	require.NoError(t, err)
	bag, err := baggage.New(member)
	require.NoError(t, err)
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: state,
	})
	ctx := trace.ContextWithSpanContext(baggage.ContextWithBaggage(context.Background(), bag), span)
	require.Equal(t, map[string]string{
		"traceparent": "00-01000000000000000000000000000000-0200000000000000-01",
		"tracestate":  "a=1",
	}, Headers(ctx))
}
