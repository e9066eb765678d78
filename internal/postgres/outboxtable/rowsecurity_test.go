package outboxtable

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// Bug (rows): with row security and no policy for the role, `repair` read no row and reported that none was missing.
// Cost: an all-clear from the command to which every remedy about missing events points.
func TestRowsThatPoliciesHideAreAnError(t *testing.T) {
	db := testkit.Postgres(t)
	db.Exec(t, `CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
		created_at timestamptz DEFAULT now())`)
	db.Exec(t, `INSERT INTO outbox DEFAULT VALUES`)
	role := identifier.Quote(db.Slot + "_r")
	db.Exec(t, `CREATE ROLE `+role+` LOGIN; GRANT SELECT ON outbox TO `+role)
	dsn := strings.Replace(db.DSN, "//postgres", "//"+db.Slot+"_r", 1)
	table := identifier.Table{Schema: "public", Name: "outbox"}
	cfg := setup.Config{Objects: postgres.Objects{
		Slot: db.Slot, Publication: db.Publication, Tables: []identifier.Table{table},
		Columns: postgres.Columns{ID: "id", Timestamp: "created_at"},
	}}
	rows, err := Open(t.Context(), dsn, cfg, table, Filter{})
	require.NoError(t, err)
	rows.Close()

	db.Exec(t, `ALTER TABLE outbox ENABLE ROW LEVEL SECURITY`)
	_, err = Open(t.Context(), dsn, cfg, table, Filter{})
	require.Equal(t, fault.Operator, fault.KindOf(err))
	require.ErrorContains(t, err, "row security")

	conn, err := postgres.Connect(t.Context(), dsn, "test")
	require.NoError(t, err)
	defer postgres.CloseConn(conn)
	var n int
	err = conn.QueryRow(t.Context(), `SELECT count(*) FROM public.outbox`).Scan(&n)
	require.ErrorContains(t, err, "row-level security")
	require.ErrorContains(t, postgres.QueryFault("table", err), "BYPASSRLS", "wherever a policy appears meanwhile")
}
