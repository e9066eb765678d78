package setup

import (
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
	"github.com/stretchr/testify/require"
)

// Versions differ: from 18 on a slot that no session reads can be lost by the clock alone.
func TestVersionsIdleTimeoutWarning(t *testing.T) {
	t.Parallel() // on a server of its own
	db := testkit.DedicatedPostgres(t, pgserver.Options{})
	if db.Major() < 18 {
		t.Skip("the setting came with 18")
	}
	for setting, warned := range map[string]bool{"0": false, "90min": true, "71h": true, "7d": false} {
		db.Exec(t, `ALTER SYSTEM SET idle_replication_slot_timeout = '`+setting+`'`)
		db.Exec(t, `SELECT pg_reload_conf()`)
		require.Eventually(t, func() bool {
			var found bool
			for _, f := range Preflight(t.Context(), db.DSN,
				Config{Objects: postgres.Objects{Slot: db.Slot, Publication: db.Publication}}) {
				if f.Subject == "idle_replication_slot_timeout" {
					found = f.Level == preflight.Warn
				}
			}
			return found == warned
		}, 30*time.Second, 100*time.Millisecond, setting)
	}
}
