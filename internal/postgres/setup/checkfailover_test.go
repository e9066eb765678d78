package setup

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// TestStandbyForecast: what the next failover would do is known of a standby that synchronizes no slots, and of one
// that has a slot of the same name, as a primary that was demoted keeps it. Each remedy is followed until all is well.
func TestStandbyForecast(t *testing.T) {
	t.Parallel() // on servers of its own
	for _, version := range testkit.Versions(t, "17", "18") {
		db := testkit.DedicatedPostgres(t, pgserver.Options{Version: version})
		db.Exec(t, setupTableDDL)
		cfg := planConfig()
		cfg.Slot, cfg.Publication, cfg.Failover = db.Slot, db.Publication, true
		require.NoError(t, Ensure(t.Context(), db.DSN, cfg, true))
		for _, c := range []struct {
			name    string
			keeps   bool
			on      map[string]string
			outcome string
		}{
			{"fresh", false, nil, "sync_replication_slots is off there."},
			{
				"demoted", true,
				map[string]string{"sync_replication_slots": "on"},
				"same name that the server does not synchronize",
			},
		} {
			standby, err := db.Server.Standby(t.Context(), c.name, c.keeps, c.on)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, standby.Close()) })
			cfg.Promotable = []string{standby.Addr()}
			f := about(Preflight(t.Context(), db.DSN, cfg), codeFailover)
			require.NotNil(t, f, c.name)
			require.Equal(t, preflight.Warn, f.Level)
			require.Contains(t, f.Found, c.outcome)
			require.Contains(t, strings.ToLower(f.Remedy), "on "+standby.Addr())
			for _, command := range f.Commands {
				require.NoError(t, standby.Exec(t.Context(), "postgres", command))
			}
			require.Eventually(t, func() bool {
				if f = about(Preflight(t.Context(), db.DSN, cfg), codeFailover); f == nil {
					return true
				}
				t.Log(f.Found)
				for _, command := range f.Commands {
					db.Exec(t, command)
				}
				// As the connector does.
				db.Exec(t, `SELECT pg_replication_slot_advance('`+db.Slot+`', pg_current_wal_lsn())`)
				return false
			}, 2*time.Minute, 200*time.Millisecond)
		}

		u, err := url.Parse(db.DSN)
		require.NoError(t, err)
		u.Host += "," + cfg.Promotable[0]
		u.RawQuery += "&target_session_attrs=read-write"
		cfg.Promotable = nil
		subjects := ""
		for _, f := range Preflight(t.Context(), u.String(), cfg) {
			if strings.HasPrefix(f.Subject, "failover to ") {
				subjects += f.Subject
				require.Equal(t, preflight.OK, f.Level, f.Found)
			}
		}
		require.Equal(t, 1, strings.Count(subjects, "failover to "), "the other host of the string: %s", subjects)
		f := about(Preflight(t.Context(), db.DSN, cfg), codeFailover)
		require.NotNil(t, f)
		require.Contains(t, f.Found, "names no other server")

		cfg.Promotable = []string{"127.0.0.1:1"}
		f = about(Preflight(t.Context(), db.DSN, cfg), codeFailover)
		require.NotNil(t, f)
		require.Contains(t, f.Found, "It cannot be asked")
	}
}
