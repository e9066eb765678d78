package main

import (
	"context"
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestRepairNamesGhosts: events without a row are found, and no event of a row that was pruned is among them.
//
// Bug (standbys): An event whose row was pruned counted as one that a failover took back. Cost: a false alarm about
// every event that is old enough.
func TestRepairNamesGhosts(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	kafka, address := newBroker(t, "orders.events")
	b := &bed{T: t, db: db, kafka: kafka, env: append(variables(t, db), "CDC_OUTBOX_KAFKA_BROKERS="+address)}
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	p := start(t, b.env)
	p.awaitReady(200)
	r := invoke(t, b.env, "repair", "--ghosts")
	require.Equal(t, 3, r.code, "an empty table does not tell")
	require.Contains(t, r.all(), "--since")

	b.db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at)
		SELECT 'orders', g::text, 'created', '{}', now() - interval '2 hours' FROM generate_series(1, 30) g`)
	b.db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at)
		SELECT 'orders', g::text, 'created', '{}', now() - interval '10 minutes' FROM generate_series(1, 20) g`)
	b.records("orders.events", 50)
	r = invoke(t, b.env, "repair", "--ghosts")
	require.Equal(t, 0, r.code, r.all())
	require.Equal(t, 0, invoke(t, b.env, "prune", "--older-than", "1h").code)
	r = invoke(t, b.env, "repair", "--ghosts")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "0 of them without a row")

	invented := func(id string, at time.Time) *kgo.Record {
		return &kgo.Record{
			Topic: "orders.events", Key: []byte("1"), Timestamp: at,
			Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(id)}},
		}
	}
	const ghost = "0d3f7c1e-0000-4000-8000-000000000001"
	const old = "0d3f7c1e-0000-4000-8000-000000000002"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(ctx, invented(ghost, time.Now()), invented(ghost, time.Now()),
		invented(old, time.Now().Add(-90*time.Minute)), invented("no uuid at all", time.Now()),
		&kgo.Record{Topic: "orders.events", Value: []byte("of another producer")}).FirstErr())
	r = invoke(t, b.env, "repair", "--ghosts", "--json")
	require.Equal(t, 3, r.code, r.all())
	var report struct {
		Ghosts []struct {
			ID, Topic string
			Offset    int64
			Repeats   int
		}
		Records   int
		Earlier   int
		WithoutID int `json:"without_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &report), r.stdout)
	require.Len(t, report.Ghosts, 2)
	require.Equal(t, ghost, report.Ghosts[0].ID)
	require.Equal(t, int64(50), report.Ghosts[0].Offset)
	require.Equal(t, 1, report.Ghosts[0].Repeats)
	require.Equal(t, "no uuid at all", report.Ghosts[1].ID)
	require.Equal(t, 55, report.Records)
	require.Equal(t, 1, report.WithoutID)
	require.Greater(t, report.Earlier, 30, "of pruned rows, and an old one")

	r = invoke(t, b.env, "repair", "--ghosts", "--since", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	require.Equal(t, 0, r.code, r.all())
	require.Equal(t, 2, invoke(t, b.env, "repair", "--ghosts", "--yes-publish-twice").code)
	require.Len(t, b.records("orders.events", 55), 55, "nothing was published")
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
}
