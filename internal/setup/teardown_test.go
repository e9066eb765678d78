package setup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// TestTeardownKeepsThePublicationOfAnotherSlot: a slot whose publication was dropped, even if it is made again, can
// never be decoded.
func TestTeardownKeepsThePublicationOfAnotherSlot(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	require.NoError(t, db.ensure(t, true))
	other := db.Slot + "_b"
	db.Exec(t, `SELECT pg_create_logical_replication_slot('`+other+`', 'pgoutput')`)
	exists := func() bool {
		p, err := postgres.LookupPublication(t.Context(), db.conn, db.Publication)
		require.NoError(t, err)
		return p.Exists
	}
	done, err := Teardown(t.Context(), db.DSN, db.cfg, false)
	require.NoError(t, err)
	require.Contains(t, stepsSQL(done), "pg_drop_replication_slot")
	require.True(t, exists())

	steps, err := PlanTeardown(t.Context(), db.DSN, db.cfg, false)
	require.NoError(t, err)
	require.Len(t, steps, 1)
	require.False(t, steps[0].Does())
	require.Contains(t, steps[0].Why, other+" (no session reads it)")

	db.Exec(t, `SELECT pg_drop_replication_slot('`+other+`')`)
	_, err = Teardown(t.Context(), db.DSN, db.cfg, false)
	require.NoError(t, err)
	require.False(t, exists())
}
