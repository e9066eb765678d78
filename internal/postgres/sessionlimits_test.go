package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

func TestOrdinarySessionsOverrideLimits(t *testing.T) {
	db := testkit.Postgres(t)
	name := db.Name
	db.Exec(t, `ALTER DATABASE `+name+` SET statement_timeout = '7s';
		ALTER DATABASE `+name+` SET default_transaction_isolation = 'serializable';
		ALTER DATABASE `+name+` SET idle_session_timeout = '8s'`)
	conn, err := postgres.Connect(t.Context(), db.DSN+"&options=-c%20idle_session_timeout%3D9s", "test")
	require.NoError(t, err)
	defer postgres.CloseConn(conn)
	setting := func(name string) (value string) {
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&value))
		return value
	}
	require.Equal(t, "0", setting("statement_timeout"))
	require.Equal(t, "read committed", setting("default_transaction_isolation"))
	require.Equal(t, "9s", setting("idle_session_timeout"), "postgres.dsn asks for it")
	limits, _, err := postgres.LookupLimits(t.Context(), conn)
	require.NoError(t, err)
	require.Empty(t, limits)

	_, err = conn.Exec(t.Context(), "RESET statement_timeout") // as in a session that a pooler lends out
	require.NoError(t, err)
	limits, _, err = postgres.LookupLimits(t.Context(), conn)
	require.NoError(t, err)
	require.Equal(t, []postgres.Limit{{Name: "statement_timeout", Value: "7000ms", Source: "database"}}, limits)
	require.Equal(t, []preflight.Finding{{
		Level: preflight.Warn, Code: "session_limits", Subject: "session limits",
		Found: "statement_timeout is 7000ms (database).",
		Why: "Such limits are for applications, and they bind this session as well: the relay does not override " +
			"default_transaction_read_only, and it overrides nothing in a session that a pooler lends out.",
		Remedy: "Set them for the role of the relay.", Commands: []string{
			`ALTER ROLE "r" SET statement_timeout = '0';`,
		},
	}}, postgres.CheckLimits(limits, 0, "r"))
	require.Len(t, postgres.CheckLimits(nil, 3, "r"), 1)
	require.Empty(t, postgres.CheckLimits(nil, 7875, "r"))
}
