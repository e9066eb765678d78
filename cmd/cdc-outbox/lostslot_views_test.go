package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// TestALostSlotHasOneRemedy: every view has the same way on for a slot that Postgres has invalidated, also with
// on_gap: heal, and none says that all is well.
//
// Bug (setup): with a slot that Postgres had invalidated `setup` said that everything was there, `check` that no gap
// was open, `monitor` to drop the slot, and `status` to replace it, although on_gap: heal does. Cost: an operator who
// follows one of them undoes what another asks for.
func TestALostSlotHasOneRemedy(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, postgres.Options{WALSegment: 1, Settings: map[string]string{
		"max_slot_wal_keep_size": "8MB", "min_wal_size": "2MB", "max_wal_size": "4MB",
	}})
	b := newBed(t, db, "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	r := start(t, b.env)
	r.awaitReady(http.StatusOK)
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
	for range 2 {
		b.db.Exec(t, `SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000))
			FROM generate_series(1, 12)`)
		b.db.Exec(t, "CHECKPOINT")
	}
	awaitSQL(b, "SELECT wal_status = 'lost' FROM pg_replication_slots WHERE slot_name = '"+b.db.Slot+"'")
	const replace, heals = "cdc-outbox slot recreate --yes-lose-events", "Start the connector: on_gap: heal"
	oneRemedy := func(env []string, heal bool) {
		t.Helper()
		for _, args := range []string{
			"check", "status", "status --why", "slot", "setup", "setup --dry-run", "monitor --once",
		} {
			r := invoke(t, env, strings.Fields(args)...)
			require.Equal(t, 3, r.code, args+"\n"+r.all())
			require.Contains(t, r.all(), replace, args)
			require.Contains(t, r.all(), "cdc-outbox repair", args)
			require.NotContains(t, r.all(), "pg_drop_replication_slot", args)
			require.NotContains(t, r.all(), "No gap in the stream is open", args)
			require.NotContains(t, r.all(), "Everything is there", args)
			if heal {
				require.Contains(t, r.all(), heals, args)
			}
		}
	}
	hook, hooks := webhooks(t)
	watching := startCommand(t, b.env, "monitor", "--http-listen=127.0.0.1:0", "--monitor-webhook="+hook)
	for lost := false; !lost; {
		select {
		case body := <-hooks:
			text := fmt.Sprint(body)
			require.NotContains(t, text, "pg_drop_replication_slot")
			if lost = body["alert"] == "slot_lost"; lost {
				require.Contains(t, text, replace)
			}
		case <-time.After(time.Minute):
			t.Fatal(watching.text())
		}
	}
	require.Equal(t, 0, watching.stop(syscall.SIGTERM), watching.text())
	oneRemedy(b.env, false)
	oneRemedy(append(b.env, "CDC_OUTBOX_ON_GAP=heal"), true)
	r = start(t, b.env, "--on-fault=stay")
	r.awaitAnswer("/status", "needs_operator")
	r.awaitAnswer("/readyz", "waits for an operator: ")
	oneRemedy(b.env, false)
	require.Contains(t, invoke(t, b.env, "check").stdout, "1 to fix", "what the connector waits for is said once")
	require.Equal(t, 1, strings.Count(invoke(t, b.env, "check").stdout, replace))
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
}
