package main

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// TestPollingKilledBetweenAcknowledgementAndMark: a session of the test has locked every row, so the process reads and
// publishes them, Kafka acknowledges, and the mark waits. There the process gets SIGKILL. Each of the rows is repeated
// once by the next process, in order, and no other row is.
func TestPollingKilledBetweenAcknowledgementAndMark(t *testing.T) {
	t.Parallel()
	const before, locked, after = 20, 30, 10
	b := newPollingBed(t, "order.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	p := start(t, b.env)
	p.awaitReady(http.StatusOK)
	b.insert("k", 1, before)
	awaitSQL(b, "SELECT count(*) = 0 FROM outbox WHERE published_at IS NULL")

	conn, err := b.db.Server.Connect(t.Context(), b.db.Name)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
	b.insert("k", before+1, before+locked)
	lock, err := conn.BeginTx(t.Context(), pgx.TxOptions{})
	require.NoError(t, err)
	_, err = lock.Exec(t.Context(), "SELECT FROM outbox WHERE published_at IS NULL FOR UPDATE")
	require.NoError(t, err)
	p = start(t, b.env)
	require.Len(t, b.records("order.events", before+locked), before+locked)
	const marking = `FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%UPDATE%published_at%'
		AND datname = current_database()`
	awaitSQL(b, "SELECT count(*) > 0 "+marking)
	require.NoError(t, p.cmd.Process.Kill())
	<-p.done
	awaitSQL(b, "SELECT count(*) = 0 "+marking) // lock_timeout ends it: a server does not notice that its client died
	require.NoError(t, lock.Rollback(t.Context()))
	var unmarked int
	require.NoError(t, conn.QueryRow(t.Context(),
		"SELECT count(*) FROM outbox WHERE published_at IS NULL").Scan(&unmarked))
	require.Equal(t, locked, unmarked, "Kafka has them, and the table does not say so")

	p = start(t, b.env)
	b.insert("k", before+locked+1, before+locked+after)
	awaitSQL(b, "SELECT count(*) = 0 FROM outbox WHERE published_at IS NULL")
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
	records := b.records("order.events", before+2*locked+after)
	require.Len(t, records, before+2*locked+after)
	require.Equal(t, locked, repeats(records))
	for i, rec := range records {
		n := i + 1
		if n > before+locked {
			n -= locked // the repeat is the same series once more
		}
		require.JSONEq(t, fmt.Sprintf(`{"n": %d}`, n), string(rec.Value))
	}
}
