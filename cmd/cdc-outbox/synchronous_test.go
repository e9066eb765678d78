package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// TestSynchronousRelayIsAnAlert: a running relay that has become a synchronous standby works itself, so only an alert
// reports that the server's commits wait. It ends when the setting is put right.
//
// Bug (setup): The same while the relay ran raised no alert: `check` and the log alone reported it. Cost: commits of
// the whole server wait, and no page is sent.
func TestSynchronousRelayIsAnAlert(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, pgserver.Options{})
	broker, err := fakebroker.Start(fakebroker.Options{})
	require.NoError(t, err)
	defer broker.Close()
	env := append(variables(t, db), "CDC_OUTBOX_KAFKA_BROKERS="+strings.Join(broker.Addrs(), ","),
		"CDC_OUTBOX_MONITOR_INTERVAL=200ms")
	require.Equal(t, 0, invoke(t, env, "setup", "--table").code)
	r := start(t, env)
	r.awaitReady(http.StatusOK)
	fires := func(value string) func() bool {
		return func() bool {
			_, metrics := r.get("/metrics")
			return strings.Contains(metrics,
				`cdc_outbox_alert_firing{alert="synchronous_relay",level="critical"} `+value+"\n")
		}
	}
	require.True(t, fires("0")())
	db.Exec(t, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	db.Exec(t, `SELECT pg_reload_conf()`)
	require.Eventually(t, fires("1"), time.Minute, 50*time.Millisecond, r.text())
	db.Exec(t, `ALTER SYSTEM RESET synchronous_standby_names`)
	db.Exec(t, `SELECT pg_reload_conf()`)
	require.Eventually(t, fires("0"), time.Minute, 50*time.Millisecond, r.text())
}
