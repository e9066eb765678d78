package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
)

// TestKafkaReplaced: the cluster that kafka.brokers names is replaced by an empty one. The process that ran sends it
// nothing and says why, the next one goes on there and keeps the gap, and repair publishes what only the old one had.
func TestKafkaReplaced(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	p, err := port.Free()
	require.NoError(t, err)
	cluster := func(id string) *fakebroker.Broker {
		b, err := fakebroker.Start(fakebroker.Options{
			Ports: []int{p}, Topics: map[string]int32{"orders.events": 2}, More: []kfake.Opt{kfake.ClusterID(id)},
		})
		require.NoError(t, err)
		return b
	}
	env := variables(t, db, "CDC_OUTBOX_KAFKA_BROKERS="+port.Addr(p), "CDC_OUTBOX_MONITOR_INTERVAL=100ms",
		"CDC_OUTBOX_HTTP_STALL=1s")
	require.Equal(t, 0, invoke(t, env, "setup", "--table").code)

	old := cluster("first")
	first := start(t, env)
	first.awaitReady(200)
	db.Exec(t, insertOrders)
	require.NoError(t, old.Await(t.Context(), 20, "orders.events"))
	conn, err := pgx.Connect(t.Context(), db.DSN)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.Eventually(t, func() bool {
		var known string
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT coalesce(max(evidence->>'kafka'), '')
			FROM cdc_outbox_gaps`).Scan(&known))
		return known == "first"
	}, time.Minute, 20*time.Millisecond)
	old.Close()
	replaced := cluster("second")
	defer replaced.Close()
	db.Exec(t, insertOrders)
	first.awaitAnswer("/status", `is of the Kafka cluster \"second\"`)
	first.awaitReady(503)
	n, err := replaced.Count(t.Context(), "orders.events")
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, first.cmd.Process.Kill()) // it would wait for the acknowledgement
	first.ended()

	second := start(t, env)
	second.awaitReady(200)
	require.NoError(t, replaced.Await(t.Context(), 20, "orders.events"))
	second.awaitAnswer("/status", `what was published before went to the cluster \"first\"`)
	r := invoke(t, env, "check")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stdout, `went to the cluster "first"`)
	var id string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT id::text FROM outbox ORDER BY created_at LIMIT 1`).Scan(&id))
	r = invoke(t, env, "find", id)
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stdout, `does not have it. Gap 2: events committed`)
	require.Contains(t, r.stdout, "cdc-outbox repair --dry-run")
	r = invoke(t, env, "prune", "--older-than=1ms")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stderr, "none is deleted until the gap is settled")
	r = invoke(t, env, "repair")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "40 rows, 20 of them not in Kafka, 20 published again")
	require.Contains(t, r.stderr, "is settled: 20 rows were not in Kafka, 20 were published")
	require.Equal(t, 0, second.stop(syscall.SIGTERM))
}
