package setup

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// TestVersionsColumnListIsOffered: what is offered loses nothing, and setup never does it.
func TestVersionsColumnListIsOffered(t *testing.T) {
	db := newAdminDB(t, setupTableDDL)
	require.NoError(t, db.ensure(t, true))
	offered := func() *Step {
		steps, err := Plan(t.Context(), db.DSN, db.cfg)
		require.NoError(t, err)
		require.NoError(t, db.ensure(t, true))
		list := about(Preflight(t.Context(), db.DSN, db.cfg), codeColumns)
		for _, s := range steps {
			if strings.Contains(s.SQL, "SET TABLE") {
				require.False(t, s.Does())
				require.NotNil(t, list)
				return &s
			}
		}
		require.Nil(t, list)
		return nil
	}
	require.Nil(t, offered(), "every column is read")
	db.Exec(t, `ALTER TABLE outbox ADD COLUMN trace text, ADD COLUMN "No te" text`)
	s := offered()
	if db.Major() < 15 {
		require.Nil(t, s, "column lists came with 15")
		return
	}
	require.NotNil(t, s)
	require.Contains(t, s.Why, `"trace", "No te"`)
	pt, _ := db.publication(t).Table(db.cfg.Tables[0])
	require.Contains(t, pt.Columns, "trace", "setup has not done it")

	db.Exec(t, strings.TrimPrefix(s.SQL, "-- "))
	pt, _ = db.publication(t).Table(db.cfg.Tables[0])
	require.NotContains(t, pt.Columns, "trace")
	require.NoError(t, CheckPublished(t.Context(), db.DSN, db.cfg))
	require.Nil(t, offered(), "it is done")

	db.Exec(t, `CREATE TABLE extra (id int);
		ALTER PUBLICATION `+identifier.Quote(db.Publication)+` SET TABLE outbox, extra`)
	require.Nil(t, offered(), "SET TABLE would remove the other table")
	db.Exec(t, `ALTER PUBLICATION `+identifier.Quote(db.Publication)+` SET TABLE outbox WHERE (event_type = 'x')`)
	require.Nil(t, about(Preflight(t.Context(), db.DSN, db.cfg), codeColumns), "SET TABLE would remove the filter")
}
