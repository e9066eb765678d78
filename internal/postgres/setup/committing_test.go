package setup

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

const insertRow = `INSERT INTO outbox VALUES (gen_random_uuid(), 'a', 'k', 'created', '{}')`

// xid is the transaction of a session.
func xid(t *testing.T, conn *pgx.Conn) (xid string) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text").Scan(&xid))
	return xid
}

// TestSetupWaitsForCommits holds a commit where it is in the log and its transaction has not ended, by a synchronous
// standby that does not exist. Two older transactions make the slot's snapshot take it as committed.
//
// Bug (setup): A table was read with a new slot's snapshot as soon as the slot was there. The server sends a commit to
// a slot before it marks the transaction as committed, and a reader in between marks its rows as rolled back, for good.
// Cost: `snapshot: initial`, `on_gap: heal` and `migrate polling` took committed rows from the users' table: 10 of two
// million, by a thousand slots beside eight writers.
func TestSetupWaitsForCommits(t *testing.T) {
	db := adminDBOn(t, testkit.DedicatedPostgres(t, pgserver.Options{}), setupTableDDL)
	slot := "s" + db.Slot[max(0, len(db.Slot)-42):]
	db.cfg.Slot, db.cfg.Snapshot = slot, true
	db.Exec(t, "ALTER ROLE postgres SET synchronous_commit = local")
	open := func() *pgx.Conn {
		conn, err := db.Connect(t.Context(), db.Name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	exec := func(conn *pgx.Conn, sql string) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	watching := open()
	until := func(condition string) {
		t.Helper()
		require.Eventually(t, func() (holds bool) {
			require.NoError(t, watching.QueryRow(t.Context(), "SELECT "+condition).Scan(&holds))
			return holds
		}, time.Minute, 5*time.Millisecond, condition)
	}
	waitedFor := func(xid string) string {
		return "EXISTS (SELECT FROM pg_locks WHERE NOT granted AND transactionid::text = '" + xid + "')"
	}
	const inSyncRep = "EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')"
	exec(watching, "ALTER SYSTEM SET synchronous_standby_names = 'absent'")
	exec(watching, "SELECT pg_reload_conf()")
	// Commits wait from the moment on in which the checkpointer has read the setting, which nothing shows but a wait.
	var probes, g errgroup.Group
	probing, waited := open(), make(chan struct{})
	oldest, older, committing := open(), open(), open()
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(func() { // before the connections are closed
		end()
		_, _ = probes.Wait(), g.Wait()
	})
	exec(probing, "SET synchronous_commit = on")
	probes.Go(func() error {
		for {
			_, err := probing.Exec(ctx, "SELECT pg_logical_emit_message(true, 'probe', '')")
			select {
			case <-waited:
				return err
			default:
			}
			if err != nil {
				return err
			}
		}
	})
	until(inSyncRep)
	close(waited)
	exec(watching, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	require.NoError(t, probes.Wait())
	exec(oldest, "BEGIN")
	oldestXID := xid(t, oldest)
	done := make(chan struct{})
	g.Go(func() error {
		defer close(done)
		return Ensure(ctx, db.DSN, db.cfg, true)
	})
	until(waitedFor(oldestXID))
	exec(older, "BEGIN")
	olderXID := xid(t, older)
	exec(oldest, "COMMIT")
	until(waitedFor(olderXID))
	exec(committing, "SET synchronous_commit = on")
	exec(committing, "BEGIN")
	exec(committing, insertRow)
	g.Go(func() error { _, err := committing.Exec(ctx, "COMMIT"); return err })
	until(inSyncRep)
	exec(older, "COMMIT")
	until("EXISTS (SELECT FROM pg_stat_activity WHERE pid <> pg_backend_pid() " +
		"AND query LIKE '%pg_visible_in_snapshot%')")
	select {
	case <-done:
		t.Fatal("the setup did not wait for the commit")
	default:
	}
	hasty := db.cfg.WithDefaults()
	hasty.SlotWait = 0
	err := hasty.awaitEnds(t.Context(), older, "1000000:1000000:") // which has all as committed
	require.Equal(t, fault.Retry, fault.KindOf(err))
	require.ErrorContains(t, err, "commits wait for synchronous standbys")
	_, next := fault.Split(err)
	waits := 0
	require.NoError(t, watching.QueryRow(t.Context(), "SELECT count(*) FROM ("+
		strings.TrimSuffix(next.Commands[0], ";")+") AS printed").Scan(&waits))
	require.Equal(t, 1, waits)
	exec(watching, "ALTER SYSTEM RESET synchronous_standby_names")
	exec(watching, "SELECT pg_reload_conf()")
	require.NoError(t, g.Wait())
	require.Len(t, db.readSnapshot(t), 1)
}
