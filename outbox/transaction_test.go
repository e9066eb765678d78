package outbox

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestANilTransactionIsRefused(t *testing.T) {
	require.ErrorIs(t, Insert(t.Context(), nil, paid()), errNoTx)
	require.ErrorIs(t, InsertSQL(t.Context(), nil, paid()), errNoTx)
}

func TestEnvelope(t *testing.T) {
	type data struct {
		Total json.Number `json:"total"`
	}
	o, err := New(Options{Headers: func(context.Context) map[string]string {
		return map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	}})
	require.NoError(t, err)
	var row [7]*string
	wrap := func(e Event) Envelope[data] {
		e.Version = 3
		require.NoError(t, o.rows(t.Context(), []Event{e}, func(r [7]*string) { row = r }))
		var got Envelope[data]
		require.NoError(t, json.Unmarshal([]byte(*row[4]), &got))
		return got
	}
	at := time.Date(2026, 11, 21, 8, 17, 0, 123456999, time.FixedZone("", 3600))
	e := Event{AggregateType: "order", AggregateID: "42", Type: "order_paid", Payload: data{"12.50"}, Timestamp: at}
	for _, payload := range []any{data{"12.50"}, []byte(`{"total": 12.50}`), json.RawMessage(`{"total": 12.50}`)} {
		e.Payload = payload
		got := wrap(e)
		require.Equal(t, *row[0], got.EventID, "one id for row and envelope")
		require.True(t, at.Truncate(time.Microsecond).Equal(got.OccurredAt))
		got.EventID, got.OccurredAt = "", time.Time{}
		require.Equal(t, Envelope[data]{
			EventType: "order_paid", EventVersion: 3, AggregateType: "order", AggregateID: "42",
			TraceID: "0af7651916cd43dd8448eb211c80319c", Data: data{"12.50"},
		}, got)
	}
	e.Timestamp, e.Headers = time.Time{}, map[string]string{"traceparent": "none"}
	got := wrap(e)
	require.WithinDuration(t, time.Now(), got.OccurredAt, time.Minute)
	require.NotNil(t, row[6], "row and envelope have the same time")
	require.Empty(t, got.TraceID)

	e.Payload, e.Version = nil, 1
	require.NoError(t, o.rows(t.Context(), []Event{e}, func(r [7]*string) { row = r }))
	require.Nil(t, row[4], "a tombstone stays one")
	e.Payload = []byte("{")
	require.Error(t, o.rows(t.Context(), []Event{e}, func([7]*string) {}))
}
