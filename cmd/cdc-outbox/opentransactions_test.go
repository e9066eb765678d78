package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// Transactions that keep restart_lsn where it is are named with what ends them, sessions and prepared ones alike.
func TestStatusNamesOpenTransactions(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, postgres.Options{Settings: map[string]string{"max_prepared_transactions": "2"}})
	env := variables(t, db)
	require.Equal(t, 0, invoke(t, env, "setup", "--table").code)
	db.Exec(t, `BEGIN; CREATE TABLE held (x int); PREPARE TRANSACTION 'nightly ''7'`)
	conn, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), `SET application_name = 'report'; BEGIN; SELECT pg_current_xact_id()`)
	require.NoError(t, err)
	pid := int(conn.PgConn().PID())

	var st service.Status
	require.Eventually(t, func() bool {
		st = service.Status{}
		r := invoke(t, env, "status", "--json")
		return json.Unmarshal([]byte(r.stdout), &st) == nil && st.ReplicationSlot != nil &&
			len(st.ReplicationSlot.Open) == 2
	}, 30*time.Second, time.Second)
	prepared, session := st.ReplicationSlot.Open[0], st.ReplicationSlot.Open[1]
	require.Equal(t, "nightly '7", prepared.GID)
	require.Equal(t, "postgres", prepared.User)
	require.Contains(t, strings.Join(prepared.Commands, "\n"), `ROLLBACK PREPARED 'nightly ''7';`)
	require.Equal(t, pid, session.PID)
	require.Equal(t, "report", session.Application)
	require.Equal(t, "idle in transaction", session.State)
	require.NotNil(t, session.QueryStart)
	require.Contains(t, strings.Join(session.Commands, "\n"),
		fmt.Sprintf("SELECT pg_catalog.pg_terminate_backend(%d);", pid))

	r := invoke(t, env, "status")
	for _, want := range []string{
		`prepared transaction "nightly '7" in database "` + db.Name + `", open for`, `ROLLBACK PREPARED 'nightly ''7';`,
		fmt.Sprintf(`the transaction of pid %d (application "report"`, pid), "idle in transaction, user postgres",
		fmt.Sprintf("SELECT pg_catalog.pg_terminate_backend(%d);", pid),
	} {
		require.Contains(t, r.stdout, want)
	}
	db.Exec(t, `ROLLBACK PREPARED 'nightly ''7'`)
	db.Exec(t, fmt.Sprintf(`SELECT pg_terminate_backend(%d)`, pid))
	require.Eventually(t, func() bool { return !strings.Contains(invoke(t, env, "status").stdout, "open transaction") },
		30*time.Second, 100*time.Millisecond)
}
