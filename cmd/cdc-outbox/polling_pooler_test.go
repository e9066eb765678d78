package main

import (
	"errors"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/pooler"
)

// TestPollingDecisionsThroughPgBouncer: a relay that polls may have PgBouncer's address only, and so may the commands.
// Their decisions have to pass there, in transaction mode and with fewer server sessions than there are clients.
func TestPollingDecisionsThroughPgBouncer(t *testing.T) {
	t.Parallel()
	b := newPollingBed(t, "order.events", "orders.events", "cdc-outbox.dead-letter")
	p, err := pooler.StartPgBouncer(t.Context(), b.db.Addr(),
		pooler.Options{Mode: "transaction", Settings: map[string]string{"default_pool_size": "3"}})
	if errors.Is(err, pooler.ErrNotInstalled) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.Log())
		}
		require.NoError(t, p.Close())
	})
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	b.env = append(b.env, "CDC_OUTBOX_POSTGRES_DSN="+b.db.DSNVia(p.Addr(), b.db.Name))
	r := start(t, b.env)
	r.awaitReady(http.StatusOK)

	done := func(args ...string) string {
		t.Helper()
		out := invoke(t, b.env, args...)
		require.Equal(t, 0, out.code, out.all())
		return out.stdout
	}
	done("pause", "--reason", "maintenance")
	r.awaitAnswer("/readyz", "paused by")
	b.insert("k", 1, 10)
	require.Equal(t, 3, invoke(t, b.env, "pause", "--reason", "again").code, "it is paused already")
	require.Contains(t, done("row", "list"), "maintenance")
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
	r = start(t, b.env)
	r.awaitAnswer("/readyz", "paused by")
	require.Empty(t, b.records("order.events", 0), "a pause lasts over a restart")
	done("resume")
	r.awaitReady(http.StatusOK)
	b.records("order.events", 10)

	for _, how := range [][]string{{"--skip"}, nil} { // nil: as a dead letter
		b.db.Exec(t, insertBadOrder)
		b.db.Exec(t, insertOneOrder)
		done(append([]string{"row", "pass", haltedID(b), "--reason", "no topic"}, how...)...)
		r.awaitReady(http.StatusOK)
		awaitSQL(b, "SELECT count(*) = 0 FROM outbox WHERE published_at IS NULL")
		awaitSQL(b, "SELECT count(*) = 0 FROM cdc_outbox_decisions WHERE closed_at IS NULL")
	}
	require.Len(t, b.records("orders.events", 2), 2)
	require.Len(t, b.records("cdc-outbox.dead-letter", 1), 1)
	require.Contains(t, done("row", "list"), "taken up")
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
	require.Len(t, b.records("order.events", 10), 10)
}
