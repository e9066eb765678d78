package inbox_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

func TestPrune(t *testing.T) {
	b := newBed(t)
	b.Exec(t, `INSERT INTO processed_events (consumer, event_id, status, claimed_at)
SELECT consumer, age || '-' || n, status, now() - age::interval
FROM unnest(ARRAY['billing', 'mail']) consumer, unnest(ARRAY['1h', '13d', '15d']) age,
	unnest(ARRAY['COMPLETED', 'PROCESSING']) status, generate_series(1, 6000) n ON CONFLICT DO NOTHING`)
	b.Exec(t, "INSERT INTO processed_events VALUES ('billing', 'begun', 'PROCESSING', NULL, now() - interval '1 year')")
	metrics := prometheus.NewRegistry()
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing", Metrics: inbox.NewMetrics(metrics)})
	require.NoError(t, err)
	_, err = in.Prune(t.Context(), time.Hour)
	require.ErrorContains(t, err, "24h")
	require.Empty(t, samples(t, metrics, prunedAt), "nothing was pruned")
	n, err := in.Prune(t.Context(), 0)
	require.NoError(t, err)
	require.EqualValues(t, 6000, n)
	require.Equal(t, 6000., sample(t, metrics, pruned, ""))
	require.InDelta(t, time.Now().Unix(), sample(t, metrics, prunedAt, ""), 60)
	std, err := inbox.NewSQL(b.sql, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	n, err = std.Prune(t.Context(), inbox.MinKeep)
	require.NoError(t, err)
	require.EqualValues(t, 6000, n)
	require.Equal(t, 6001, b.count(t, "processed_events WHERE consumer = 'billing'"))
	require.Equal(t, 18000, b.count(t, "processed_events WHERE consumer = 'mail'"))
	require.NoError(t, in.Ping(t.Context()))
	require.NoError(t, std.Ping(t.Context()))
}
