package main

import (
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestStatusOfAnInstanceThatStandsBy: it waits for the instance that holds the slot, which it names, and says what
// comes next.
//
// Bug (monitor): A waiting instance reported in status that it waits for nothing. Cost: a second instance that looked
// broken, or a first instance that could not be identified.
func TestStatusOfAnInstanceThatStandsBy(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	b := newBed(t, db, "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	first := start(t, b.env)
	first.awaitReady(http.StatusOK)
	second := start(t, b.env)
	listen := "--http-listen=" + strings.TrimPrefix(second.url, "http://")
	holder := regexp.MustCompile(`Another instance holds the slot: backend \d+, application "cdc-outbox/` + db.Slot +
		`", from 127\.0\.0\.1, since 20\S+\. This instance waits`)
	var res result
	require.Eventually(t, func() bool {
		res = invoke(t, b.env, "status", listen)
		return holder.MatchString(strings.Join(strings.Fields(res.stdout), " "))
	}, time.Minute, 200*time.Millisecond, "%s", res.stdout)
	require.NotContains(t, res.stdout, "waits for nothing")
	require.Contains(t, strings.Join(strings.Fields(res.stdout), " "), "takes over when the holder ends")
	require.Eventually(t, func() bool {
		_, body := second.get("/status")
		return strings.Contains(body, `"kind": "standby"`)
	}, time.Minute, 200*time.Millisecond)
}

// TestRollingUpdate: with http.standby_ready the next instance is available while the first still holds the slot, says
// what it waits for, and takes over soon after the first has stopped.
func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	before := start(t, b.env, "--http-standby-ready")
	before.awaitReady(http.StatusOK)
	b.db.Exec(t, insertOneOrder)
	b.records("orders.events", 1)

	plain := start(t, b.env)
	plain.awaitAnswer("/readyz", "standby: the slot is held by backend ")
	plain.awaitReady(http.StatusServiceUnavailable)
	require.Equal(t, 0, plain.stop(syscall.SIGTERM))

	next := start(t, b.env, "--http-standby-ready")
	why := next.awaitReady(http.StatusOK)
	require.Contains(t, why, "standby: the slot is held by backend ")
	_, status := next.get("/status")
	require.Contains(t, status, `"ready": false`, "it does not relay yet")

	require.Equal(t, 0, before.stop(syscall.SIGTERM))
	stopped := time.Now()
	require.Eventually(t, func() bool {
		code, body := next.get("/readyz")
		return code == http.StatusOK && body == "streaming\n"
	}, time.Minute, 5*time.Millisecond)
	took := time.Since(stopped)
	t.Logf("took over %v after the stop", took.Round(time.Millisecond))
	require.Less(t, took, 30*time.Second, "usually a quarter of a second; a busy machine needs longer")
	b.db.Exec(t, insertOneOrder)
	require.Len(t, b.records("orders.events", 2), 2)
}
