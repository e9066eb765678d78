package otelinbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/inbox/otelinbox"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func message(headers ...consumer.Header) consumer.Message {
	return consumer.Message{
		Topic: "order.events", Partition: 3, Offset: 42, Key: []byte("secret"), Value: []byte("secret"),
		Headers: headers, ID: "e-1", Attempt: 2,
	}
}

func TestStart(t *testing.T) {
	for _, tc := range []struct {
		what   string
		header string
		err    error
		parent bool
		result string
		status codes.Code
	}{
		{what: "joined", header: traceparent, parent: true},
		{what: "no traceparent"},
		{what: "none that is one", header: "00-" + "0af7651916cd43dd8448eb211c80319c"},
		{
			what: "a duplicate", header: traceparent, parent: true,
			err: fmt.Errorf("x: %w", inbox.ErrDuplicate), result: "duplicate",
		},
		{what: "contended", header: traceparent, parent: true, err: inbox.ErrContended, result: "contended"},
		{what: "failed", header: traceparent, parent: true, err: errors.New("no stock"), status: codes.Error},
	} {
		t.Run(tc.what, func(t *testing.T) {
			spans := tracetest.NewSpanRecorder()
			m := message(consumer.Header{Key: "id", Value: []byte("e-1")})
			if tc.header != "" {
				m.Headers = append(m.Headers, consumer.Header{Key: "traceparent", Value: []byte(tc.header)})
			}
			provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
			ctx, ended := otelinbox.Start(provider, "billing")(t.Context(), m)
			require.True(t, trace.SpanContextFromContext(ctx).IsValid(), "the handler can make children")
			ended(tc.err)
			require.Len(t, spans.Ended(), 1)
			s := spans.Ended()[0]
			require.Equal(t, "process order.events", s.Name())
			require.Equal(t, trace.SpanKindConsumer, s.SpanKind())
			require.Equal(t, tc.parent, s.Parent().IsValid())
			if tc.parent {
				require.Equal(t, "0af7651916cd43dd8448eb211c80319c", s.SpanContext().TraceID().String())
				require.Equal(t, "b7ad6b7169203331", s.Parent().SpanID().String())
				require.True(t, s.Parent().IsRemote())
			}
			require.Equal(t, tc.status, s.Status().Code)
			a := attribute.NewSet(s.Attributes()...)
			require.NotContains(t, fmt.Sprint(s.Attributes()), "secret")
			got, ok := a.Value("cdc_outbox.result")
			require.Equal(t, tc.result != "", ok)
			if ok {
				require.Equal(t, tc.result, got.AsString())
			}
			offset, _ := a.Value("messaging.kafka.offset")
			require.Equal(t, int64(42), offset.AsInt64())
		})
	}
}

func TestWithoutAnSDKNothingHappens(t *testing.T) {
	otel.SetTracerProvider(otel.GetTracerProvider())
	m := message(consumer.Header{Key: "traceparent", Value: []byte(traceparent)})
	ctx, ended := otelinbox.Start(nil, "billing")(context.Background(), m)
	id := trace.SpanContextFromContext(ctx).TraceID().String()
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", id, "the context is passed on")
	ended(nil)
}
