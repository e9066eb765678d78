package main

import (
	"encoding/json"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/tools/find"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

const insertOne = `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers)
	VALUES ($1, $2, 'created', '{}', $3) RETURNING id::text`

// TestFind follows events: before the relay runs, in Kafka, dead-lettered, pruned, and one that was rolled back.
func TestFind(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "orders.events", "other.events", "cdc-outbox.dead-letter")
	b.env = append(b.env, "CDC_OUTBOX_ROUTER_ON_BAD_ROW=dead_letter")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	look := func(code int, args ...string) *find.Report {
		t.Helper()
		r := invoke(t, b.env, append([]string{"find", "--json"}, args...)...)
		require.Equal(t, code, r.code, r.all())
		var report find.Report
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &report), r.all())
		return &report
	}

	b.db.Exec(t, "ALTER TABLE outbox DROP CONSTRAINT outbox_headers_check")
	good := value(t, b.db, insertOne, "orders", "k1", nil)
	bad := value(t, b.db, insertOne, "orders", "k2", `{"id": "mine"}`)
	report := look(3, good)
	require.Equal(t, find.Waiting, report.Verdict)
	require.Contains(t, report.Sentence, "no process reads slot")
	require.Len(t, report.Rows, 1)

	p := start(t, b.env)
	p.awaitReady(200)
	b.records("cdc-outbox.dead-letter", 1)
	b.records("orders.events", 1)
	report = look(0, good)
	require.Equal(t, find.Published, report.Verdict)
	require.Len(t, report.Records, 1)
	require.True(t, report.Rows[0].InKafka)
	require.Equal(t, "orders.events", report.Records[0].Topic)
	require.NotEmpty(t, report.Records[0].Position)

	report = look(3, bad)
	require.Equal(t, find.DeadLettered, report.Verdict)
	require.Len(t, report.Letters, 1)

	report = look(0, "--key", "k1")
	require.Equal(t, good, report.Records[0].EventID)
	require.True(t, report.Rows[0].InKafka)
	require.Equal(t, find.Unknown, look(3, "--key", "nothing").Verdict)
	require.Equal(t, find.Unknown, look(3, "00000000-0000-0000-0000-000000000000").Verdict)

	b.db.Exec(t, "DELETE FROM outbox")
	report = look(0, good)
	require.Empty(t, report.Rows)
	require.Len(t, report.Records, 1, "without its row it is found by reading all topics")

	require.Equal(t, 0, invoke(t, b.env, "replay", "--dry-run", "--all").code)
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
	require.Equal(t, 2, invoke(t, b.env, "find").code)
	require.Equal(t, 2, invoke(t, b.env, "find", good, "--key", "k1").code)
	require.Contains(t, invoke(t, b.env, "find", good).stdout, "Published: topic orders.events, partition 0, offset 0.")
}

// TestFindAMissingRecord: the slot is past the row and the topic does not hold it, as after retention, and one that can
// be published again.
func TestFindAMissingRecord(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	b.db.Exec(t, insertOrders)
	now := value(t, b.db, "SELECT pg_current_wal_lsn()::text")
	require.Equal(t, 0, invoke(t, b.env, "slot", "advance", "--to", now, "--yes-lose-events").code)
	id := value(t, b.db, "SELECT id::text FROM outbox LIMIT 1")
	p := start(t, b.env)
	p.awaitReady(200)
	r := invoke(t, b.env, "find", id)
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stdout, "the relay is past it, and topic orders.events does not have it")
	require.Contains(t, r.stdout, "moved by `cdc-outbox slot advance`")
	require.Contains(t, r.stdout, "cdc-outbox repair\n")
	gap := value(t, b.db, "SELECT max(id)::text FROM cdc_outbox_gaps WHERE cause <> 'none'")
	require.Equal(t, 0, invoke(t, b.env, "repair", "--dismiss", gap, "--reason", "known").code)
	require.Contains(t, invoke(t, b.env, "find", id).stdout, "cdc-outbox replay --id "+id)
	require.Equal(t, 0, invoke(t, b.env, "replay", "--id", id).code)
	r = invoke(t, b.env, "find", id)
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "Published by a replay or a repair")
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
}
