package main

import (
	"encoding/json"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/tools/audit"
)

// The exit code distinguishes a clean audit, a finding, and an audit that could not be done.
func TestAuditsExitCodes(t *testing.T) {
	t.Parallel()
	r := newBadRig(t, "at_least_once")
	bad := invoke(t, r.env, "audit", "--consumer=billing")
	require.Equal(t, 1, bad.code, bad.all())
	require.Contains(t, bad.stderr, "created_at\" is text")
	r.db.Exec(t, `ALTER TABLE outbox ALTER created_at TYPE timestamptz USING NULL, ALTER created_at SET DEFAULT now()`)
	c := start(t, r.env)
	c.awaitReady(http.StatusOK)
	r.insertGood()
	require.NoError(t, r.kafka.Await(t.Context(), int64(r.good), "orders.events"))
	run := func(args ...string) result {
		return invoke(t, r.env, append([]string{"audit", "--since=1h", "--grace=0s"}, args...)...)
	}
	res := run("--consumer=billing")
	require.Equal(t, 2, res.code, res.all())
	require.Contains(t, res.stderr, "not a ledger of package inbox")
	require.Equal(t, 2, run().code, "no consumer is named")

	r.db.Exec(t, `CREATE TABLE processed_events (consumer text COLLATE "C", event_id text COLLATE "C", status text,
		claimed_at timestamptz DEFAULT now(), completed_at timestamptz DEFAULT now(),
		PRIMARY KEY (consumer, event_id))`)
	res = run("--consumer=billing", "--json")
	require.Equal(t, 3, res.code, res.all())
	var report audit.Report
	require.NoError(t, json.Unmarshal([]byte(res.stdout), &report), res.all())
	require.True(t, report.Confirmed, "the connector runs")
	require.EqualValues(t, r.good, report.Consumers[0].Findings[audit.Unhandled].Count)

	r.db.Exec(t, `INSERT INTO processed_events SELECT 'billing', id::text, 'COMPLETED' FROM outbox`)
	res = run("--consumer=billing")
	require.Equal(t, 0, res.code, res.all())
	require.Contains(t, res.stdout, "every event that the audit has seen was published and handled once")
	res = run("--consumer=billing", "--complete", "--archive="+t.TempDir())
	require.Equal(t, 0, res.code, res.all())
	require.Contains(t, res.stdout, "every event of the window was published and handled once")
	require.Equal(t, 2, run("--consumer=billing", "--archive=/no/such/directory").code)
	require.Equal(t, 0, c.stop(syscall.SIGTERM))
}
