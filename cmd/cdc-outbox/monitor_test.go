package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// webhooks is a server to which alerts are sent, and what was sent there.
func webhooks(t *testing.T) (url string, sent <-chan map[string]any) {
	bodies := make(chan map[string]any, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body map[string]any
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &body)
		bodies <- body
	}))
	t.Cleanup(hook.Close)
	return hook.URL, bodies
}

// TestMonitorNeedsNothingButADSN: a server with another program's slots, a role that may only connect, and no other
// setting.
func TestMonitorNeedsNothingButADSN(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, postgres.Options{
		WALSegment: 1, Settings: map[string]string{
			"max_slot_wal_keep_size": "8MB", "min_wal_size": "2MB", "max_wal_size": "4MB",
		},
	})
	db.Exec(t, `CREATE ROLE watcher LOGIN`)
	db.Exec(t, `SELECT pg_create_logical_replication_slot('debezium', 'pgoutput')`)
	db.Exec(t, `SELECT pg_create_logical_replication_slot('other', 'test_decoding')`)
	dsn := "--postgres-dsn=" + strings.Replace(db.DSN, "postgres@", "watcher@", 1)

	r := invoke(t, nil, "monitor", "--once", dsn)
	require.Equal(t, 0, r.code, r.all())
	require.Regexp(t, `(?m)^debezium +`+db.Name+` +pgoutput +nobody( for .*)? +reserved .* warn$`, r.stdout)
	require.Regexp(t, `(?m)^other .*test_decoding`, r.stdout)
	r = invoke(t, nil, "monitor", "--once", "--json", "--only=other", dsn)
	require.Equal(t, 0, r.code, r.all())
	var list service.Slots
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &list))
	require.Len(t, list.Slots, 1)
	require.Equal(t, "other", list.Slots[0].Name)

	// As a service: alerts reach log, metrics and webhook.
	hook, hooks := webhooks(t)
	p := startCommand(t, nil, "monitor", dsn, "--http-listen=127.0.0.1:0", "--monitor-interval=200ms",
		"--monitor-webhook="+hook+"/T0KEN", "--monitor-runbook-url=self")
	require.Contains(t, p.awaitReady(http.StatusOK), "watching")
	db.Exec(t, `SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000)) FROM generate_series(1, 12)`)
	db.Exec(t, `CHECKPOINT`)
	db.Exec(t, `SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000)) FROM generate_series(1, 4)`)
	db.Exec(t, `CHECKPOINT`)
	lost := map[string]bool{}
	for len(lost) < 2 {
		select {
		case b := <-hooks:
			if b["alert"] == "slot_lost" {
				require.Equal(t, "critical", b["level"])
				require.False(t, lost[b["slot"].(string)], "reported once")
				lost[b["slot"].(string)] = true
				require.Regexp(t, `^http://127\.0\.0\.1:\d+/runbook/#slot_lost$`, b["runbook"])
			}
		case <-time.After(time.Minute):
			t.Fatalf("only %v", lost)
		}
	}
	_, metrics := p.get("/metrics")
	require.Contains(t, metrics, `cdc_outbox_alert_firing{alert="slot_lost",level="critical"} 1`)
	require.Contains(t, metrics, `cdc_outbox_slot_wal_status{slot="debezium",status="lost"} 1`)
	code, body := p.get("/runbook/")
	require.Equal(t, 200, code)
	require.Contains(t, body, `<h3 id="slot_lost">`)
	code, body = p.get("/status")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"runbook": "runbook/#slot_lost"`)
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	require.Equal(t, slotmonitor.CauseLost, list.Slots[0].Cause.Code)
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
	require.Equal(t, 2, strings.Count(p.text(), `"alert":"slot_lost"`), p.text())
	require.NotContains(t, p.text(), "T0KEN")

	r = invoke(t, nil, "monitor", "--once", dsn)
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stdout, "critical slot_lost: The slot is lost")
	require.Contains(t, r.stdout, "SELECT pg_catalog.pg_drop_replication_slot('debezium');")

	require.NoError(t, db.Stop(t.Context(), postgres.Fast))
	r = invoke(t, nil, "monitor", "--once", dsn)
	require.Equal(t, 1, r.code, r.all())
	require.NotContains(t, r.all(), db.DSN)
}

func TestMonitorAsALineOfJSONPerLook(t *testing.T) {
	db := testkit.Postgres(t)
	db.Exec(t, `SELECT pg_create_logical_replication_slot('`+db.Slot+`', 'pgoutput')`)
	cmd := command(t.Context(), nil, "monitor", "--json", "--http-listen=off", "--monitor-interval=100ms",
		"--only="+db.Slot, "--postgres-dsn="+db.DSN)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for range 3 {
		require.True(t, lines.Scan())
		var s service.Slots
		require.NoError(t, json.Unmarshal(lines.Bytes(), &s))
		require.Equal(t, db.Slot, s.Slots[0].Name)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_, _ = io.Copy(io.Discard, out)
	require.NoError(t, cmd.Wait())
}
