package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// waits has Wait for both kinds of drivers.
func waits(t *testing.T, db *testkit.Database) map[string]func(ctx context.Context, slot string) error {
	pool, err := sql.Open("pgx", db.DSN)
	require.NoError(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	return map[string]func(ctx context.Context, slot string) error{
		"pgx": func(ctx context.Context, slot string) error {
			conn, err := pgx.Connect(t.Context(), db.DSN) // a context that ends within a statement ends it
			require.NoError(t, err)
			defer func() { _ = conn.Close(context.Background()) }()
			return outbox.Wait(ctx, conn, slot)
		},
		"database/sql": func(ctx context.Context, slot string) error { return outbox.WaitSQL(ctx, pool, slot) },
	}
}

// The errors of Wait say why nothing would come, or how far the relay is.
func TestWaitSaysWhy(t *testing.T) {
	if testing.Short() {
		t.Skip("needs Postgres")
	}
	t.Parallel()
	db := testkit.Postgres(t)
	slot, physical := db.Name, db.Name+"_physical"
	db.Exec(t, "SELECT pg_create_logical_replication_slot('"+slot+"', 'pgoutput')")
	db.Exec(t, "SELECT pg_create_physical_replication_slot('"+physical+"')")
	defer db.Exec(t, "SELECT pg_drop_replication_slot('"+physical+"')")
	for name, wait := range waits(t, db) {
		t.Run(name, func(t *testing.T) {
			err := wait(t.Context(), "no_such_slot")
			require.ErrorIs(t, err, outbox.ErrSlot)
			require.ErrorContains(t, err, `"no_such_slot" does not exist`)
			err = wait(t.Context(), physical)
			require.ErrorIs(t, err, outbox.ErrSlot)
			require.ErrorContains(t, err, "is a physical slot")

			db.Exec(t, "SELECT pg_logical_emit_message(false, 'x', 'x')")
			progress := regexp.MustCompile(`has confirmed [0-9A-F/]+, not yet [0-9A-F/]+, and no relay reads from it`)
			require.Eventually(t, func() bool { // in between two statements
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				err = wait(ctx, slot)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				return progress.MatchString(err.Error())
			}, time.Minute, time.Millisecond)

			waited := make(chan error, 1)
			go func() { waited <- wait(t.Context(), slot) }()
			require.Eventually(t, func() bool {
				db.Exec(t, "SELECT pg_replication_slot_advance('"+slot+"', pg_current_wal_flush_lsn())")
				select {
				case err = <-waited:
					return true
				default:
					return false
				}
			}, time.Minute, 20*time.Millisecond)
			require.NoError(t, err)
		})
	}
}

// What a transaction has written is not committed, so Wait refuses to wait within it.
func TestWaitWithinATransaction(t *testing.T) {
	conn, db := connect(t, outbox.Options{})
	db.Exec(t, "SELECT pg_create_logical_replication_slot('"+db.Name+"', 'pgoutput')")
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	event := outbox.Event{AggregateType: "order", AggregateID: "1", Type: "x"}
	require.NoError(t, outbox.Insert(t.Context(), tx, event))
	require.ErrorContains(t, outbox.Wait(t.Context(), conn, db.Name), "not committed yet")
	require.NoError(t, tx.Rollback(t.Context()))
}

// The end of the WAL may be after the header of an empty page, which no commit reaches.
func TestWaitAtTheBeginOfAPage(t *testing.T) {
	if testing.Short() {
		t.Skip("needs Postgres")
	}
	t.Parallel()
	db := testkit.DedicatedPostgres(t, postgres.Options{Settings: map[string]string{"autovacuum": "off"}})
	conn, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), "SELECT pg_create_logical_replication_slot('relay', 'pgoutput')")
	require.NoError(t, err)
	const overhead = 60 // of a message's record, found out by the loop
	for try := range 2000 {
		var left int
		require.NoError(t, conn.QueryRow(t.Context(),
			"SELECT 8192 - (pg_current_wal_insert_lsn() - '0/0')::bigint % 8192").Scan(&left))
		size := left - overhead - 8*(try%8) // records are aligned to 8 bytes
		if size < 0 {
			size = 4000
		}
		_, err = conn.Exec(t.Context(), fmt.Sprintf("SELECT pg_logical_emit_message(false, 'p', '%s')",
			strings.Repeat("x", size)))
		require.NoError(t, err)
		var inHeader bool
		require.NoError(t, conn.QueryRow(t.Context(),
			"SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint % 8192 <= 40").Scan(&inHeader))
		if !inHeader {
			continue
		}
		var confirmed, end string
		require.Eventually(t, func() bool {
			require.NoError(t, conn.QueryRow(t.Context(),
				"SELECT pg_current_wal_flush_lsn()::text, pg_current_wal_insert_lsn()::text").Scan(&confirmed, &end))
			return strings.HasSuffix(confirmed, "000")
		}, time.Minute, 10*time.Millisecond)
		require.NotEqual(t, confirmed, end)
		_, err = conn.Exec(t.Context(), "SELECT pg_replication_slot_advance('relay', $1::text::pg_lsn)", confirmed)
		require.NoError(t, err)
		require.NoError(t, outbox.Wait(t.Context(), conn, "relay"))
		return
	}
	t.Fatal("no record ended at the end of a page")
}
