package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// TestStandbyFailoverIsAnAlert: a running connector says that its standby has no copy of the slot, in its metrics, its
// alerts and its status, with the SQL; that is over when the server has copied the slot.
func TestStandbyFailoverIsAnAlert(t *testing.T) {
	t.Parallel()
	for _, version := range testkit.Versions(t, "17", "18") {
		db := testkit.DedicatedPostgres(t, pgserver.Options{Version: version})
		env := append(newBed(t, db, "orders.events").env, "CDC_OUTBOX_POSTGRES_FAILOVER=true")
		require.Equal(t, 0, invoke(t, env, "setup", "--table").code)
		standby, err := db.Server.Standby(t.Context(), "standby_1", false, nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, standby.Close()) })
		env = append(env, "CDC_OUTBOX_POSTGRES_STANDBYS="+standby.Addr())
		c := start(t, env)
		c.awaitReady(http.StatusOK)

		metric := func(line string) func() bool {
			return func() bool {
				_, metrics := c.get("/metrics")
				return strings.Contains(metrics, line+"\n")
			}
		}
		const firing = `cdc_outbox_alert_firing{alert="next_failover",level="warn"} `
		ready := `cdc_outbox_standby_failover_ready{standby="` + standby.Addr() + `"} `
		require.Eventually(t, metric(firing+"1"), time.Minute, 50*time.Millisecond, c.text())
		require.True(t, metric(ready+"0")())
		_, text := c.get("/status")
		var st service.Status
		require.NoError(t, json.Unmarshal([]byte(text), &st))
		var commands []string
		for _, a := range st.Alerts {
			if a.Rule == "next_failover" {
				require.Contains(t, a.Sentence, "sync_replication_slots is off")
				commands = a.Cause.Commands
			}
		}
		require.NotEmpty(t, commands, text)
		r := invoke(t, env, "status", "--http-listen="+strings.TrimPrefix(c.url, "http://"))
		require.Contains(t, r.stdout, "sync_replication_slots is off", r.all())

		for _, command := range commands {
			require.NoError(t, standby.Exec(t.Context(), "postgres", command))
		}
		require.Eventually(t, func() bool {
			db.Exec(t, insertOrders) // so that the slot moves on
			db.Exec(t, `SELECT pg_log_standby_snapshot()`)
			return metric(ready + "1")()
		}, 2*time.Minute, 200*time.Millisecond, c.text())
		require.Eventually(t, metric(firing+"0"), time.Minute, 50*time.Millisecond, c.text())
	}
}
