package runbook_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/docs"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

var limitListing = regexp.MustCompile("(?s)\n### slot_unreserved\n.*?```sql\n(.*?)( \\\\gexec|;)\n")

// TestBuyingTimeNeverLowersTheLimit pastes what the section about slot_unreserved says, with limits of all sizes: a
// lower limit than the present one would lose the slot at the next checkpoint.
//
// Bug (monitor): The runbook set `max_slot_wal_keep_size` to a fixed size. Cost: where the limit was larger, a slot
// lost by the command that was to save it.
func TestBuyingTimeNeverLowersTheLimit(t *testing.T) {
	m := limitListing.FindStringSubmatch(string(docs.Runbook))
	require.NotNil(t, m)
	for _, limit := range []int{1, 20, 200 << 10} { // MB
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			buyTime(t, m[1], m[2] == ";", limit)
		})
	}
}

// buyTime runs a statement of the runbook, or, as psql does with \gexec, the statement that it returns.
func buyTime(t *testing.T, statement string, plain bool, limit int) {
	db := testkit.DedicatedPostgres(t, postgres.Options{Settings: map[string]string{
		"max_slot_wal_keep_size": fmt.Sprintf("%dMB", limit),
	}})
	db.Exec(t, `SELECT pg_create_logical_replication_slot('`+db.Slot+`', 'pgoutput')`)
	db.Exec(t, `CREATE TABLE filler AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)`)
	conn, err := db.Connect(t.Context(), "postgres")
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }() // it was only read from
	if !plain {
		require.NoError(t, conn.QueryRow(t.Context(), statement).Scan(&statement))
	}
	db.Exec(t, statement)
	var after, kept int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT
		(SELECT pg_size_bytes(setting) / 1048576 FROM pg_file_settings
			WHERE name = 'max_slot_wal_keep_size' ORDER BY seqno DESC LIMIT 1),
		(SELECT (pg_current_wal_lsn() - restart_lsn) / 1048576 FROM pg_replication_slots)::int`).Scan(&after, &kept))
	require.Greater(t, after, limit)
	require.Greater(t, after, kept)
}
