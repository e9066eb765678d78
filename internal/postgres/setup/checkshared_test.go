package setup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

func about(findings []preflight.Finding, code string) *preflight.Finding {
	for _, f := range findings {
		if f.Code == code {
			return &f
		}
	}
	return nil
}

// TestCheckNamesASynchronousRelay: the server counts a session that decodes among its standbys.
//
// Bug (setup): `synchronous_standby_names = '*'` made the relay the synchronous standby, and nothing reported it. Cost:
// no commit of the server returned while Kafka was away.
func TestCheckNamesASynchronousRelay(t *testing.T) {
	t.Parallel() // on a server of its own
	dedicated := testkit.DedicatedPostgres(t, pgserver.Options{})
	dedicated.Exec(t, setupTableDDL)
	cfg := planConfig()
	cfg.Slot, cfg.Publication = dedicated.Slot, dedicated.Publication
	require.NoError(t, Ensure(t.Context(), dedicated.DSN, cfg, true))
	running, err := CheckRunning(t.Context(), dedicated.DSN, cfg, nil)
	require.NoError(t, err)
	require.Empty(t, running.Harm)

	dedicated.Exec(t, `ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (a, *)'`)
	dedicated.Exec(t, `SELECT pg_reload_conf()`)
	require.Eventually(t, func() bool {
		running, err := CheckRunning(t.Context(), dedicated.DSN, cfg, nil)
		require.NoError(t, err)
		return about(running.Harm, codeSynchronous) != nil
	}, 30*time.Second, 50*time.Millisecond)
	f := about(Preflight(t.Context(), dedicated.DSN, cfg), codeSynchronous)
	require.NotNil(t, f)
	require.Equal(t, preflight.Fail, f.Level)
	require.Contains(t, f.Commands, "ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (standby_1)';")
}

// Versions differ in the arguments of the functions.
//
// Bug (setup): Nothing said that every role of the database may emit events. Cost: forged events.
func TestVersionsCheckNamesPublicMessages(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	require.NoError(t, db.ensure(t, true))
	require.Nil(t, about(Preflight(t.Context(), db.DSN, db.cfg), codeEmitters), "no prefix is configured")
	db.cfg.Messages = []string{"outbox"}
	f := about(Preflight(t.Context(), db.DSN, db.cfg), codeEmitters)
	require.NotNil(t, f)
	require.Len(t, f.Commands, 4)
	for _, revoke := range f.Commands[:2] {
		db.Exec(t, revoke)
	}
	require.Nil(t, about(Preflight(t.Context(), db.DSN, db.cfg), codeEmitters))
}
