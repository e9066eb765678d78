package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// emptyTopic removes all records of the topic's only partition.
func (b *bed) emptyTopic(topic string) {
	b.Helper()
	ends, err := b.kafka.Admin().ListEndOffsets(b.Context(), topic)
	require.NoError(b, err)
	answers, err := b.kafka.Admin().DeleteRecords(b.Context(), ends.Offsets())
	require.NoError(b, err)
	require.NoError(b, answers.Error())
}

// TestRepairWhereRecordsWereRemoved: what a topic does not have may have been there, so it is neither published again
// nor does it settle a gap, until an operator says so.
//
// Bug (rows): `repair` of an open gap, which names its own --since, took rows for missing of which Kafka had removed
// the records, if a partition was empty, and published them again. Cost: duplicates, and a gap settled with a wrong
// number.
func TestRepairWhereRecordsWereRemoved(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	first := start(t, b.env)
	first.awaitReady(200)
	insertNumbered(b, 1, 19)
	const id = "00000000-0000-0000-0000-000000000020"
	b.db.Exec(t, `INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload)
		VALUES ('`+id+`', 'orders', '1', 'created', '{"n": 20}')`)
	b.records("orders.events", 20)
	require.Equal(t, 0, first.stop(syscall.SIGTERM))
	require.Equal(t, 0, invoke(t, b.env, "slot", "recreate", "--yes-lose-events").code)
	p := start(t, b.env)
	p.awaitReady(200)
	b.emptyTopic("orders.events")

	undecided := func(rows string) {
		t.Helper()
		r := invoke(t, b.env, "repair")
		require.Equal(t, 3, r.code, r.all())
		require.Contains(t, r.stdout, rows+" of them not in Kafka, 0 published again")
		require.Contains(t, r.stdout, rows+" of them may have been published")
		require.Contains(t, r.stderr, "its older records were removed")
		require.NotContains(t, r.stderr, "is settled")
		require.Contains(t, invoke(t, b.env, "status").stdout, "events may be missing")
	}
	undecided("20")
	r := invoke(t, b.env, "repair", "--dry-run", "--json")
	require.Contains(t, r.stdout, `"not_certain": 20`)
	r = invoke(t, b.env, "find", id)
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stdout, "Kafka may have removed its record")
	require.NotContains(t, r.stdout, "cdc-outbox repair\n")

	insertNumbered(b, 21, 22) // what is left begins after the rows of the gap, but not by much
	b.records("orders.events", 2)
	undecided("20")
	b.db.Exec(t, "UPDATE outbox SET created_at = now() - interval '1 day' WHERE (payload->>'n')::int <= 20")
	insertNumbered(b, 23, 23)
	b.records("orders.events", 3)
	b.emptyTopic("orders.events")
	r = invoke(t, b.env, "replay", "--id="+id) // an old record that does not show how old the records before it were
	require.Equal(t, 0, r.code, r.all())
	since := time.Now().Add(-48 * time.Hour).UTC().Format(time.RFC3339)
	require.Contains(t, invoke(t, b.env, "repair", "--since="+since).stdout, "22 of them may have been published")
	r = invoke(t, b.env, "repair", "--yes-publish-twice")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stderr, "is settled")
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
}
