package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestStatusOfAnInstanceThatStandsBy: it waits for the instance that holds the slot, which it names, and says what
// comes next.
func TestStatusOfAnInstanceThatStandsBy(t *testing.T) {
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
	}, 20*time.Second, 200*time.Millisecond, "%s", res.stdout)
	require.NotContains(t, res.stdout, "waits for nothing")
	require.Contains(t, strings.Join(strings.Fields(res.stdout), " "), "takes over when the holder ends")
	require.Eventually(t, func() bool {
		_, body := second.get("/status")
		return strings.Contains(body, `"kind": "standby"`)
	}, 20*time.Second, 200*time.Millisecond)
}
