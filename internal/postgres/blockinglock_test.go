package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestPreparedTransactionsAreBlockers: what holds a lock is named, and ended by the command that is printed, whether it
// is a session or a prepared transaction, which has none.
//
// Bug (setup): A lock that a prepared transaction holds was said to be the lock of a session that is not known, or of
// pid 0. Cost: pg_terminate_backend(0) as the remedy, and a wait without end.
func TestPreparedTransactionsAreBlockers(t *testing.T) {
	db := testkit.Postgres(t)
	db.Exec(t, `CREATE TABLE held (x int)`)
	conn, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	t.Cleanup(func() { CloseConn(conn) })
	gid := db.Name + ` of'a`
	prepare := func() {
		tx, err := db.Connect(t.Context(), db.Name)
		require.NoError(t, err)
		defer CloseConn(tx)
		for _, sql := range []string{
			"BEGIN", "LOCK TABLE held IN ACCESS EXCLUSIVE MODE",
			"SELECT pg_advisory_xact_lock(hashtextextended('words', 0))",
			"SELECT pg_current_xact_id()", "PREPARE TRANSACTION " + identifier.QuoteLiteral(gid),
		} {
			_, err = tx.Exec(t.Context(), sql)
			require.NoError(t, err, sql)
		}
	}
	ends := func(r fault.Remedy, command int) {
		require.Len(t, r.Commands, 2)
		_, err := conn.Exec(t.Context(), r.Commands[command], pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	}
	table := identifier.Table{Schema: "public", Name: "held"}
	for command := range 2 {
		prepare()
		by, err := LookupBlocker(t.Context(), conn, table)
		require.NoError(t, err)
		require.Equal(t, gid, by.Prepared)
		require.Regexp(t, `^prepared transaction ".* of'a", open for `, by.String())
		holder, err := LookupLockHolder(t.Context(), conn, "words")
		require.NoError(t, err)
		require.Equal(t, gid, holder.Prepared)
		require.False(t, holder.Waits)
		require.Equal(t, holder.Remedy(), by.Remedy())
		ends(by.Remedy(), command)
		by, err = LookupBlocker(t.Context(), conn, table)
		require.NoError(t, err)
		require.Nil(t, by)
		holder, err = LookupLockHolder(t.Context(), conn, "words")
		require.NoError(t, err)
		require.Nil(t, holder)
	}
}
