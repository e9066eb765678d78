package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
)

// TestKafkaLostRecords: a topic is deleted and created again, once under a running process, once while none runs, once
// when nothing is written any more. The next acknowledged record shows it, or the end of the partition, and repair
// publishes what Kafka has lost.
func TestKafkaLostRecords(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	const topic = "orders.events"
	broker, err := fakebroker.Start(fakebroker.Options{Topics: map[string]int32{topic: 2}})
	require.NoError(t, err)
	defer broker.Close()
	env := variables(t, db, "CDC_OUTBOX_KAFKA_BROKERS="+broker.Addrs()[0], "CDC_OUTBOX_MONITOR_INTERVAL=100ms")
	require.Equal(t, 0, invoke(t, env, "setup", "--table").code)
	conn, err := pgx.Connect(t.Context(), db.DSN)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	remembered := func(acknowledged int) {
		require.Eventually(t, func() bool {
			var known int
			require.NoError(t, conn.QueryRow(t.Context(), `SELECT coalesce(sum(n::int), 0) FROM cdc_outbox_gaps,
				jsonb_array_elements_text(evidence->'ends'->'orders.events') AS n WHERE cause = 'none'`).Scan(&known))
			return known == acknowledged
		}, time.Minute, 20*time.Millisecond)
	}
	recreate := func() {
		require.NoError(t, broker.DeleteTopic(topic))
		require.NoError(t, broker.CreateTopic(topic, 2, nil))
	}
	repaired := func(p *running, offsets, rows, lost string) {
		p.awaitAnswer("/status", "no longer has: offsets "+offsets+" of partition")
		r := invoke(t, env, "repair")
		require.Equal(t, 0, r.code, r.all())
		require.Contains(t, r.stdout, rows+" rows, "+lost+" of them not in Kafka, "+lost+" published again")
		r = invoke(t, env, "check")
		require.Equal(t, 0, r.code, r.all())
	}

	first := start(t, env)
	first.awaitReady(200)
	db.Exec(t, insertOrders)
	require.NoError(t, broker.Await(t.Context(), 20, topic))
	remembered(20)
	recreate()
	db.Exec(t, insertOrders)
	require.NoError(t, broker.Await(t.Context(), 20, topic))
	repaired(first, "0 to 9", "40", "20")
	db.Exec(t, insertOrders)
	require.NoError(t, broker.Await(t.Context(), 60, topic))
	remembered(60)
	require.Equal(t, 0, first.stop(syscall.SIGTERM))

	recreate()
	second := start(t, env)
	second.awaitReady(200)
	db.Exec(t, insertOrders)
	require.NoError(t, broker.Await(t.Context(), 20, topic))
	repaired(second, "0 to 29", "80", "60")
	db.Exec(t, insertOrders)
	require.NoError(t, broker.Await(t.Context(), 100, topic))
	remembered(100)
	recreate() // and nothing is written any more
	repaired(second, "0 to 49", "100", "100")
	require.Equal(t, 0, second.stop(syscall.SIGTERM))
}
