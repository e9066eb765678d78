package setup

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// Bug (stream): the rows of a table that inherits from the outbox, and is not a partition, came through no slot, while
// `check` was content and the connector ready. Cost: events missing from Kafka without any sign of it.
func TestVersionsChildrenByInheritance(t *testing.T) {
	db := withGaps(t, setupTableDDL)
	require.Empty(t, db.look(t))
	db.Exec(t, `CREATE TABLE outbox_child () INHERITS (outbox)`)
	_, err := CheckRunning(t.Context(), db.DSN, db.cfg, nil)
	requireOperator(t, err, "outbox_child", "inherits")
	open := db.look(t)
	require.Len(t, open, 1)
	require.Equal(t, gap.Unpublished, open[0].Cause)
	requireOperator(t, db.ensure(t, false), "outbox_child")
	db.paste(t, err)
	require.NoError(t, db.ensure(t, false))
	require.False(t, db.look(t)[0].Lasts())
	for _, f := range Preflight(t.Context(), db.DSN, db.cfg) {
		require.NotContains(t, f.Found, "not configured", "no remedy takes it out again")
	}
	_, err = db.conn.Exec(t.Context(), `CREATE TEMPORARY TABLE outbox_mine () INHERITS (outbox)`)
	require.NoError(t, err)
	require.NoError(t, CheckPublished(t.Context(), db.DSN, db.cfg), "no other session sees the rows of a temporary one")
}

func TestUnloggedTableOfAllTables(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	db.Exec(t, `CREATE PUBLICATION `+identifier.Quote(db.cfg.Publication)+` FOR ALL TABLES WITH (publish = 'insert')`)
	db.Exec(t, db.cfg.SlotDDL())
	require.NoError(t, CheckPublished(t.Context(), db.DSN, db.cfg))
	db.Exec(t, `ALTER TABLE outbox SET UNLOGGED`)
	err := CheckPublished(t.Context(), db.DSN, db.cfg)
	requireOperator(t, err, "unlogged")
	db.paste(t, err)
	require.NoError(t, CheckPublished(t.Context(), db.DSN, db.cfg))
}

func TestRowSecurityIsNamed(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	require.NoError(t, db.ensure(t, true))
	require.Nil(t, about(Preflight(t.Context(), db.DSN, db.cfg), codeRowSecurity))
	role := identifier.Quote(db.cfg.Slot + "_sees")
	db.Exec(t, `ALTER TABLE outbox ENABLE ROW LEVEL SECURITY`)
	db.Exec(t, `CREATE ROLE `+role+` LOGIN REPLICATION`)
	db.Exec(t, `GRANT SELECT ON outbox TO `+role)
	f := about(Preflight(t.Context(), strings.Replace(db.DSN, "//postgres", "//"+db.cfg.Slot+"_sees", 1), db.cfg),
		codeRowSecurity)
	require.NotNil(t, f)
	require.Equal(t, preflight.Warn, f.Level)
	require.Contains(t, f.Commands[0], "BYPASSRLS")
}
