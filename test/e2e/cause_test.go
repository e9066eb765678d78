//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// awaitCause waits until /status names the cause, for 15 s at most, which is what an operator who reads it may expect
// (45 s without soak). Until all is well again it may take longer: the connector's pauses grow.
func awaitCause(t *testing.T, p *process.Process, code string, words ...string) {
	t.Helper()
	began := time.Now()
	var cause map[string]any
	limit := soak(15*time.Second, 45*time.Second)
	if code == "idle" {
		limit = patience
	}
	until(t, limit, 20*time.Millisecond, func() (bool, string) {
		st, err := p.Status()
		if err != nil {
			return false, err.Error()
		}
		cause, _ = st["cause"].(map[string]any)
		ok := cause["code"] == code
		for _, w := range words {
			ok = ok && strings.Contains(fmt.Sprint(cause["sentence"], cause["object"], cause["next"],
				cause["commands"]), w)
		}
		return ok, fmt.Sprintf("not %s with %q; it says: %v", code, words, cause)
	})
	t.Logf("%s after %v: %v", code, time.Since(began).Round(10*time.Millisecond), cause["sentence"])
}

// requireWhy asks the command, which asks the process.
func requireWhy(t *testing.T, r *rig, p *process.Process, words ...string) {
	t.Helper()
	env := maps.Clone(r.env)
	env["CDC_OUTBOX_HTTP_LISTEN"] = p.HTTPAddr()
	why, err := process.Start(process.Options{Args: []string{"status", "--why"}, Env: env})
	require.NoError(t, err)
	t.Cleanup(func() { _ = why.Close() })
	code, err := why.Wait(patience)
	require.NoError(t, err)
	require.Zero(t, code)
	for _, w := range words {
		require.Contains(t, why.Stdout(), w)
	}
}

// Each thing that a slot waits for, made for real: the tool names it within 15 s (45 s without soak).
func TestCauses(t *testing.T) {
	db := testkit.DedicatedPostgres(t, postgres.Options{})
	r, kind, _ := plainRig(t, db)
	_, broker := sharedKafka(t)
	p := r.start(map[string]string{"CDC_OUTBOX_MONITOR_INTERVAL": "500ms", "CDC_OUTBOX_WINDOW_RECORDS": "500"})
	awaitCause(t, p, "idle")
	t.Cleanup(func() {
		broker.Away(false)
		broker.Stall(false)
		broker.SetShape(proxy.Up, proxy.Shape{})
	})

	broker.Away(true)
	r.insert(kind, 1)
	awaitCause(t, p, "broker_unreachable", broker.Addr())
	requireWhy(t, r, p, "broker_unreachable: ")
	broker.Away(false)
	awaitCause(t, p, "idle")

	broker.Stall(true) // a black hole: the connection stays, nothing passes
	r.insert(kind, 1)
	awaitCause(t, p, "unacknowledged", "committed")
	broker.Stall(false)
	awaitCause(t, p, "idle")

	broker.SetShape(proxy.Up, proxy.Shape{Bandwidth: 100_000})
	r.insert(kind, 5000)
	awaitCause(t, p, "back_pressure", "of 500 records")
	broker.SetShape(proxy.Up, proxy.Shape{})
	awaitCause(t, p, "idle")

	broker.SetShape(proxy.Up, proxy.Shape{Bandwidth: 3_000_000})
	r.insert(kind, 80000) // nine seconds to see it in
	awaitCause(t, p, "large_transaction", "rows of it were read")
	broker.SetShape(proxy.Up, proxy.Shape{})
	awaitCause(t, p, "idle")

	open, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	_, err = open.Exec(t.Context(), `BEGIN; INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES ('`+
		kind+`', '1', 'open')`)
	require.NoError(t, err)
	db.Exec(t, `SELECT pg_logical_emit_message(false, 'filler', repeat('x', 4000000))`)
	awaitCause(t, p, "open_transaction", fmt.Sprintf("pid %d", open.PgConn().PID()), "last statement began",
		"pg_terminate_backend")
	require.NoError(t, open.Close(t.Context()))
	awaitCause(t, p, "idle")

	r.insert(kind+"_missing", 1)
	awaitCause(t, p, "topic_missing", kind+"_missing.events")
	require.NoError(t, r.kafka.Create(r.within(patience), kafkaclient.Topic{Name: kind + "_missing.events"}))
	awaitCause(t, p, "idle")

	const id = "00000000-0000-4000-8000-000000000bad"
	db.Exec(t, `INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, headers) VALUES ('`+id+`', '`+kind+
		`', '1', 'bad', '[1]')`)
	awaitCause(t, p, "bad_row", id, "LSN")
	requireWhy(t, r, p, "bad_row: ", id)

	p.Kill()
	_, err = p.Wait(patience)
	require.NoError(t, err)
	r.awaitSlotFree()
	gone, err := process.Start(process.Options{Args: []string{"status", "--why"}, Env: r.env})
	require.NoError(t, err)
	t.Cleanup(func() { _ = gone.Close() })
	code, err := gone.Wait(patience)
	require.NoError(t, err)
	require.Zero(t, code)
	require.Contains(t, gone.Stdout(), "no_consumer: No session reads the slot") // since when is known from PG 17 on
}
