package setup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// TestTeardownKeepsThePublicationOfAnotherSlot: a slot whose publication was dropped, even if it is made again, can
// never be decoded.
//
// Bug (setup): `teardown` dropped a publication that another connector's slot reads. Cost: that slot could never be
// decoded again.
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

// TestTeardownEndsAPause: a later slot of the name would begin paused, without a reason that anyone remembers.
//
// Bug (monitor): `teardown` left a pause in the table of decisions. Cost: a later slot of the same name that begins
// paused.
func TestTeardownEndsAPause(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	db.cfg.Decisions = identifier.Table{Schema: "public", Name: "decisions"}
	require.NoError(t, db.ensure(t, true))
	pause := func(slot string) {
		db.Exec(t, `INSERT INTO decisions (relay, kind, reason, decided_from) VALUES ('`+slot+`', 'pause', 'r', 'f')`)
	}
	holds := func(what string) (yes bool) {
		require.NoError(t, db.conn.QueryRow(t.Context(), "SELECT "+what).Scan(&yes))
		return yes
	}
	pause(db.Slot)
	pause("another")
	done, err := Teardown(t.Context(), db.DSN, db.cfg, false)
	require.NoError(t, err)
	require.NotContains(t, stepsSQL(done), "DROP TABLE")
	require.True(t, holds("count(*) = 1 FROM decisions WHERE closed_at IS NULL"), "that of the other slot")

	steps, err := PlanTeardown(t.Context(), db.DSN, db.cfg, true)
	require.NoError(t, err)
	require.Contains(t, stepsSQL(steps), `-- DROP TABLE "public"."decisions"`, "it holds decisions about another slot")
	db.Exec(t, "DELETE FROM decisions WHERE relay = 'another'")
	_, err = Teardown(t.Context(), db.DSN, db.cfg, true)
	require.NoError(t, err)
	require.True(t, holds("to_regclass('decisions') IS NULL"))
}
