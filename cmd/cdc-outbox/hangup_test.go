package main

import (
	"net/http"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestSIGHUPDoesNotEndTheRelay: a service manager's reload and a log rotation send it as a matter of course.
//
// Bug (setup): SIGHUP ended the process without a drain. Cost: repeats, and no connector after a service manager's
// reload.
func TestSIGHUPDoesNotEndTheRelay(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	r := start(t, b.env)
	r.awaitReady(http.StatusOK)
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGHUP))
	if !signal.Ignored(syscall.SIGHUP) { // under nohup neither the tests nor the relay receive it
		r.awaitText("SIGHUP ignored")
	}
	b.db.Exec(t, insertOrder)
	b.records("orders.events", 1)
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
}
