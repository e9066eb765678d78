package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

const insertOrders = `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
	SELECT 'orders', g::text, 'created', jsonb_build_object('pad', repeat('x', 300)) FROM generate_series(1, 20) g`

// TestRepairClosesAGap: a slot is dropped and re-created without the connector's knowledge, with rows in between. It is
// refused, accepted by hand, and what is missing is found and published.
func TestRepairClosesAGap(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	broker, err := fakebroker.Start(fakebroker.Options{})
	require.NoError(t, err)
	defer broker.Close()
	kafka, err := kafkaclient.New(broker.Addrs())
	require.NoError(t, err)
	defer kafka.Close()
	require.NoError(t, kafka.Create(t.Context(), kafkaclient.Topic{Name: "orders.events", Partitions: 2}))
	env := variables(t, db, "CDC_OUTBOX_KAFKA_BROKERS="+broker.Addrs()[0])
	require.Equal(t, 0, invoke(t, env, "setup", "--table").code)

	first := start(t, env)
	first.awaitReady(200)
	db.Exec(t, insertOrders)
	require.NoError(t, kafka.Await(t.Context(), 20, "orders.events"))
	r := invoke(t, env, "slot", "recreate", "--yes-lose-events")
	require.Equal(t, 3, r.code, "a slot that is being read is left alone: "+r.all())
	require.Equal(t, 0, first.stop(syscall.SIGTERM))

	db.Exec(t, insertOrders)
	r = invoke(t, env, "slot", "recreate")
	require.Equal(t, 2, r.code, "without a word nothing happens")
	require.Contains(t, r.stderr, "there are 20 events")
	r = invoke(t, env, "slot", "advance", "--to", "0/1")
	require.Equal(t, 2, r.code, r.all())

	db.Exec(t, `SELECT pg_drop_replication_slot('`+db.Slot+`')`)
	db.Exec(t, `SELECT pg_create_logical_replication_slot('`+db.Slot+`', 'pgoutput')`)
	r = invoke(t, env, "slot")
	require.Contains(t, r.stdout, "beyond the last confirmed position")
	r = invoke(t, env, "run", "--http-listen=off")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stderr, "cdc-outbox slot accept")
	require.Equal(t, 3, invoke(t, env, "repair").code, "the connector does not run")
	require.Equal(t, 0, invoke(t, env, "slot", "accept").code)

	second := start(t, env)
	second.awaitReady(200)
	const open = "events may be missing"
	r = invoke(t, env, "status")
	require.Contains(t, r.stdout, open)
	require.Contains(t, r.stdout, "cdc-outbox repair --dry-run")
	r = invoke(t, env, "check")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stdout, "accepted beyond the last confirmed position")
	r = invoke(t, env, "prune", "--older-than=1ms", "--dry-run")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "outbox: 0 rows from before", "what the repair needs stays")
	require.Contains(t, r.stderr, "stay until that is settled")
	r = invoke(t, env, "repair", "--dismiss", "99", "--reason", "no such gap")
	require.Equal(t, 3, r.code, r.all())
	r = invoke(t, env, "repair", "--dry-run")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "40 rows, 20 of them not in Kafka, 0 published again")
	require.Contains(t, r.stdout, "Next: cdc-outbox repair,")
	r = invoke(t, env, "repair")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "20 published again")
	require.NoError(t, kafka.Await(t.Context(), 40, "orders.events"))
	require.Contains(t, r.stderr, "is settled: 20 rows were not in Kafka, 20 were published")
	require.NotContains(t, invoke(t, env, "status").stdout, open)
	r = invoke(t, env, "repair", "--json")
	require.Contains(t, r.stdout, `"missing": 0`)
	require.Contains(t, invoke(t, env, "prune", "--older-than=1ms", "--dry-run").stdout, "outbox: 40 rows from before")
	db.Exec(t, insertOneOrder) // published after all that is before it
	require.NoError(t, kafka.Await(t.Context(), 41, "orders.events"))
	n, err := kafka.Count(t.Context(), "orders.events")
	require.NoError(t, err)
	require.EqualValues(t, 41, n, "each once")
	require.Equal(t, 0, second.stop(syscall.SIGTERM))
}

// TestRepairWithoutATimestamp: the connector takes the commit's time where the table has no such column, so repair and
// replay have no such time either.
//
// Bug (rows): `repair` and `replay` refused a table without `created_at`, of which the connector builds records all the
// same, and named no remedy. Cost: a gap that could not be closed.
func TestRepairWithoutATimestamp(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	b.db.Exec(t, "ALTER TABLE outbox DROP COLUMN created_at")
	p := start(t, b.env)
	p.awaitReady(200)
	b.db.Exec(t, insertOrders)
	require.Len(t, b.records("orders.events", 20), 20)
	b.db.Exec(t, "ALTER PUBLICATION "+b.db.Publication+" SET (publish = 'delete')")
	b.db.Exec(t, insertOrders)
	b.db.Exec(t, "ALTER PUBLICATION "+b.db.Publication+" SET (publish = 'insert')")
	r := invoke(t, b.env, "repair", "--dry-run")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "40 rows, 20 of them not in Kafka")
	require.Contains(t, r.stderr, "in the order of their ids")
	r = invoke(t, b.env, "repair")
	require.Equal(t, 0, r.code, r.all())
	require.Len(t, b.records("orders.events", 40), 40, "each once")
	r = invoke(t, b.env, "replay", "--all")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stderr, "in the order of their ids")
	require.Len(t, b.records("orders.events", 80), 80)
	for command, want := range map[string]string{
		"repair --since 2026-01-31T08:00:00Z": "Leave the time range out",
		"replay --since 2026-01-31T08:00:00Z": "router.columns.timestamp",
		"prune --older-than 1h":               "router.columns.timestamp",
		"prune --older-than 1h --partitions":  "",
	} {
		r = invoke(t, b.env, strings.Fields(command)...)
		require.NotEqual(t, 0, r.code, "%s: %s", command, r.all())
		require.Contains(t, r.all(), want, command)
		require.NotContains(t, r.all(), "42703", command)
	}
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
}

// TestRepairOfRowsWithoutATime: a range of times has none of them, so a gap is settled only without one.
//
// Bug (rows): `repair` of an open gap looked at the rows from the gap's time on, passed over those whose timestamp is
// NULL, and settled the gap. Cost: an all-clear about rows at which it had not looked.
func TestRepairOfRowsWithoutATime(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	b.db.Exec(t, "ALTER TABLE outbox ALTER created_at DROP NOT NULL")
	p := start(t, b.env)
	p.awaitReady(200)
	b.db.Exec(t, insertOrders)
	b.records("orders.events", 20)
	b.db.Exec(t, "ALTER PUBLICATION "+b.db.Publication+" SET (publish = 'delete')")
	b.db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at)
		VALUES ('orders', '1', 'created', '{}', NULL)`)
	b.db.Exec(t, "ALTER PUBLICATION "+b.db.Publication+" SET (publish = 'insert')")
	p.awaitAnswer("/status", `"to_lsn": "`) // of the gap, which may have been seen while it lasted
	r := invoke(t, b.env, "repair", "--since", "2020-01-31T08:00:00Z")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "20 rows, 0 of them not in Kafka")
	require.Contains(t, r.stdout, "1 row has no time")
	require.Contains(t, r.stderr, "No gap is settled")
	r = invoke(t, b.env, "repair")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "21 rows, 1 of them not in Kafka, 1 published again")
	require.Contains(t, r.stderr, "is settled: ")
	require.Len(t, b.records("orders.events", 21), 21)
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
}

// Bug (letters): repair counted rows that an operator had skipped or dead-lettered as missing. Cost: it published what
// had been decided against, or ended at the row that Kafka refuses, and the gap stayed open.
func TestRepairLeavesOutWhatWasDecided(t *testing.T) {
	t.Parallel()
	b := newBadRig(t, "at_least_once")
	b.db.Exec(t, `ALTER TABLE outbox ALTER created_at TYPE timestamptz USING now(), ALTER created_at SET DEFAULT now()`)
	c := start(t, b.env)
	c.awaitReady(200)
	for _, row := range []struct{ id, how string }{{"skipped", "--skip"}, {"lettered", "--reason=too large"}} {
		b.db.Exec(t, fmt.Sprintf(`INSERT INTO outbox VALUES ('%s', 'orders', 'k', 'created',
			('"' || repeat('l', %d) || '"')::json)`, row.id, tooLarge))
		c.awaitReady(503)
		r := invoke(t, b.env, "row", "pass", row.id, row.how, "--reason=too large")
		require.Equal(t, 0, r.code, r.all())
		c.awaitReady(200)
	}
	b.insertGood()
	require.NoError(t, b.kafka.Await(t.Context(), 1, "orders.events"))
	r := invoke(t, b.env, "repair")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "outbox: 3 rows, 0 of them not in Kafka, 0 published again")
	require.Contains(t, r.stdout, "besides, 1 row is a dead letter: `cdc-outbox dead-letter list`")
	require.Contains(t, r.stdout, "besides, 1 row was skipped by decision: `cdc-outbox row list`")
	require.Contains(t, invoke(t, b.env, "dead-letter", "list").stdout, "lettered")
	require.Contains(t, invoke(t, b.env, "row", "list").stdout, "skipped")
	r = invoke(t, b.env, "dead-letter", "dismiss", "lettered")
	require.Equal(t, 0, r.code, r.all())
	r = invoke(t, b.env, "repair", "--json")
	require.Contains(t, r.stdout, `"dead_lettered": 1`, r.all())
	require.Equal(t, 0, c.stop(syscall.SIGTERM))
}

// Bug (rows): Of two rows with one id, a record of one accounts for both, and `repair` said that nothing is missing,
// and no more. Cost: an event that no consumer handled, while all was green.
func TestRepairCountsRowsWithOneID(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	b.db.Exec(t, "ALTER TABLE outbox DROP CONSTRAINT outbox_pkey")
	connector := start(t, b.env)
	connector.awaitReady(200)
	b.db.Exec(t, insertOrders)
	b.db.Exec(t, "INSERT INTO outbox SELECT * FROM outbox ORDER BY aggregate_id LIMIT 3")
	b.records("orders.events", 23)
	r := invoke(t, b.env, "repair")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "23 rows, 0 of them not in Kafka")
	require.Contains(t, r.stdout, "3 rows have the ids of other rows")
	r = invoke(t, b.env, "check")
	require.Contains(t, r.stdout, "HAVING count(*) > 1;")
	require.Contains(t, invoke(t, b.env, "repair", "--json").stdout, `"same_id": 3`)

	holder, err := pgx.Connect(t.Context(), b.db.DSN)
	require.NoError(t, err)
	defer func() { _ = holder.Close(context.Background()) }()
	_, err = holder.Exec(t.Context(), "SELECT pg_advisory_lock(hashtextextended($1, 0))",
		"cdc-outbox repair "+b.db.Slot)
	require.NoError(t, err)
	r = invoke(t, b.env, "repair")
	require.Equal(t, 3, r.code, r.all())
	end := fmt.Sprintf("SELECT pg_catalog.pg_terminate_backend(%d);", holder.PgConn().PID())
	require.Contains(t, r.stderr, end)
	b.db.Exec(t, end)
	require.Equal(t, 0, invoke(t, b.env, "repair").code)
}

// TestRepairOfAPausedRelay: what a paused relay has not published is not missing. A repair names the pause, and works
// after the command that it prints.
func TestRepairOfAPausedRelay(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	connector := start(t, b.env)
	connector.awaitReady(200)
	b.db.Exec(t, insertOrders)
	b.records("orders.events", 20)
	require.Equal(t, 0, invoke(t, b.env, "pause", "--reason", "maintenance").code)
	connector.awaitAnswer("/readyz", "paused by")
	b.db.Exec(t, insertOrders)
	r := invoke(t, b.env, "repair")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stderr, "it is paused")
	require.Contains(t, r.stderr, "maintenance")
	require.Contains(t, r.stderr, "cdc-outbox resume")
	r = invoke(t, b.env, "repair", "--dry-run")
	require.Equal(t, 0, r.code, r.all())

	require.Equal(t, 0, invoke(t, b.env, "resume").code)
	b.records("orders.events", 40)
	r = invoke(t, b.env, "repair")
	require.Equal(t, 0, r.code, r.all())
	require.Len(t, b.records("orders.events", 40), 40)
}
