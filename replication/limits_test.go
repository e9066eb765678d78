package replication

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// limits are what an operator may have set for the applications of a database, with the values that the stream needs.
func limits(major int) map[string][2]string {
	all := map[string][2]string{
		"statement_timeout": {"7s", "0"}, "lock_timeout": {"7s", "0"},
		"idle_in_transaction_session_timeout": {"7s", "0"}, "idle_session_timeout": {"7s", "0"},
		"tcp_user_timeout":               {"7s", "0"},
		"default_transaction_isolation":  {"serializable", "read committed"},
		"default_transaction_read_only":  {"on", "off"},
		"default_transaction_deferrable": {"on", "off"},
	}
	if major >= 17 {
		all["transaction_timeout"] = [2]string{"7s", "0"}
	}
	return all
}

// Versions differ: transaction_timeout came with 17, and a startup packet that names an unknown setting is refused.
//
// Bug (stream): Limits that were set for a database also bound the sessions of the stream and the checkpoint. Cost:
// broken streams, failed writes of the checkpoint.
func TestVersionsLimitsOfTheDatabaseDoNotBindTheStream(t *testing.T) {
	src := newSource(t, testkit.Postgres(t))
	var set string
	for name, value := range limits(src.Major()) {
		set += "ALTER DATABASE " + src.Name + " SET " + name + " = '" + value[0] + "';"
	}
	src.Exec(t, set)
	cfg, err := src.check()
	require.NoError(t, err)
	conn, err := dial(t.Context(), cfg, false)
	require.NoError(t, err)
	defer login.Hangup(conn.PgConn)
	_, _, err = conn.identify(t.Context(), cfg, false)
	require.NoError(t, err)

	store := checkpoint{cfg: cfg}
	written, err := store.connect(t.Context(), cfg.DSN)
	require.NoError(t, err)
	defer written.Close(context.Background())
	for name, value := range limits(src.Major()) {
		row, err := conn.query(t.Context(), "SELECT current_setting('"+name+"')", 1)
		require.NoError(t, err)
		require.Equal(t, value[1], string(row[0]), name)

		switch name {
		case "statement_timeout", "tcp_user_timeout":
			continue // the checkpoint has its own limit, and reads whatever it asks for
		}
		var got string
		require.NoError(t, written.QueryRow(t.Context(), "SELECT current_setting($1)", pgx.QueryExecModeExec, name).
			Scan(&got))
		require.Equal(t, value[1], got, name)
	}
}

// A server-wide transaction_timeout counts for a walsender that decodes a transaction. The stream would break within
// the same transaction each time.
//
// Bug (stream): A `transaction_timeout` of the server ended the stream within a large transaction each time. Cost: no
// event after it arrived.
func TestTransactionTimeoutDoesNotEndTheStream(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, pgserver.Options{Version: "17"})
	src := newSource(t, db)
	const rows = 300_000
	db.Exec(t, `INSERT INTO outbox SELECT n, repeat('x', 100) FROM generate_series(1, 300000) n`)
	db.Exec(t, `ALTER SYSTEM SET transaction_timeout = '250ms'`)
	db.Exec(t, `SELECT pg_reload_conf()`)
	streams, got := 0, 0
	err := Run(t.Context(), src.Config, func(_ context.Context, s *Stream) error {
		if streams++; streams > 1 {
			return &fault.Error{Err: errors.New("the stream broke")}
		}
		for {
			m, err := s.Receive()
			if err != nil {
				return err
			}
			switch m.Kind {
			case pgoutput.KindInsert:
				got++
			case pgoutput.KindCommit:
				return nil
			}
		}
	})
	require.NoError(t, err)
	require.Equal(t, rows, got)
}
