package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// A gap shows beside the slots of the server, also if its connector does not run and its slot does not exist any more:
// monitor watches while no other process does.
//
// Bug (monitor): monitor did not look at gaps. Cost: where it alone sends alerts, a slot that had lost events was ok,
// and its exit code was 0.
func TestMonitorNamesGaps(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	dsn := "--postgres-dsn=" + db.DSN
	r := invoke(t, nil, "setup", "--table", dsn, "--postgres-slot="+db.Slot, "--postgres-publication="+db.Publication)
	require.Equal(t, 0, r.code, r.all())
	once := func(code int, args ...string) string {
		r := invoke(t, nil, append([]string{"monitor", "--once", dsn}, args...)...)
		require.Equal(t, code, r.code, r.all())
		return r.stdout
	}
	require.NotContains(t, once(0, "--only="+db.Slot), "missing")

	hook, hooks := webhooks(t)
	p := startCommand(t, nil, "monitor", dsn, "--http-listen=127.0.0.1:0",
		"--monitor-interval=100ms", "--only="+db.Slot, "--only=gone_"+db.Slot, "--monitor-webhook="+hook)
	require.Contains(t, p.awaitReady(http.StatusOK), "watching")
	next := func(alert, state string) map[string]any {
		for {
			select {
			case b := <-hooks:
				if b["alert"] == alert && b["state"] == state {
					return b
				}
			case <-time.After(time.Minute):
				t.Fatalf("%s is not %s: %s", alert, state, p.text())
			}
		}
	}
	open := func(slot string) {
		db.Exec(t, `INSERT INTO cdc_outbox_gaps (slot, cause, what, system_id, from_lsn, to_lsn)
			VALUES ('`+slot+`', 'slot_recreated', 'the slot was made again', '7', '0/10', '0/20')`)
	}
	open(db.Slot)
	b := next("events_may_be_missing", "firing")
	require.Equal(t, db.Slot, b["slot"])
	require.Contains(t, b["sentence"], "events committed between 0/10 and 0/20 may be missing")
	_, metrics := p.get("/metrics")
	require.Contains(t, metrics, `cdc_outbox_alert_firing{alert="events_may_be_missing",level="critical"} 1`)
	_, status := p.get("/status")
	require.Contains(t, status, `"cause": "slot_recreated"`)

	text := once(3, "--only="+db.Slot)
	require.Regexp(t, `(?m)^`+db.Slot+` .* critical$`, text)
	require.Equal(t, 1, strings.Count(text, "may be missing"), text)
	require.Contains(t, text, "cdc-outbox repair --dry-run")
	var list service.Slots
	require.NoError(t, json.Unmarshal([]byte(once(3, "--only="+db.Slot, "--json")), &list))
	require.Equal(t, "slot_recreated", list.Gaps[db.Slot][0].Cause)

	db.Exec(t, `UPDATE cdc_outbox_gaps SET settled_at = now(), settled_how = 'dismissed' WHERE cause <> 'none'`)
	next("events_may_be_missing", "resolved")
	open("gone_" + db.Slot)
	b = next("events_may_be_missing", "firing")
	require.Empty(t, b["slot"])
	require.Contains(t, once(3, "--only=gone_"+db.Slot), "\ngone_"+db.Slot+"\n")

	db.Exec(t, `CREATE ROLE "watch_`+db.Slot+`" LOGIN`)
	stranger := "--postgres-dsn=" + strings.Replace(db.DSN, "postgres@", "watch_"+db.Slot+"@", 1)
	r = invoke(t, nil, "monitor", "--once", "--only="+db.Slot, stranger)
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "Gaps in the streams are not known: table")
	require.Contains(t, r.stdout, "permission denied")
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
	p = startCommand(t, nil, "monitor", stranger, "--http-listen=127.0.0.1:0", "--monitor-interval=100ms")
	require.Eventually(t, func() bool {
		_, status := p.get("/status")
		return strings.Contains(status, `"gaps_unknown": "table`)
	}, time.Minute, 100*time.Millisecond)
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
	require.Equal(t, 1, strings.Count(p.text(), "gaps in the streams are not known"), p.text())
}
