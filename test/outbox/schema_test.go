package outbox_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/outbox"
)

// Bug (setup): `CREATE INDEX IF NOT EXISTS` of outbox.Schema and inbox.Schema locks the table before it looks. Cost: an
// instance that ran them at its start waited for each open transaction of the others, and all writers waited after it.
func TestSchemaDoesNotWaitForWriters(t *testing.T) {
	for name, opts := range map[string]outbox.Options{
		"plain":       {},
		"partitioned": {Partitioned: true},
		"odd names":   {Schema: `My "Schema" $do$`, Table: `Out'box; --\\`},
	} {
		t.Run(name, func(t *testing.T) {
			conn, db := connect(t, opts)
			o, err := outbox.New(opts)
			require.NoError(t, err)
			ddl, err := outbox.Schema(opts)
			require.NoError(t, err)
			require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				require.NoError(t, o.Insert(t.Context(), tx, paid()))
				db.Exec(t, "SET lock_timeout = '1s'; "+ddl)
				return nil
			}))
			var indexes int
			require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_indexes
				WHERE indexname LIKE '%\_created\_at\_idx' AND indexname NOT LIKE '%default%'`).Scan(&indexes))
			require.Equal(t, 1, indexes)
		})
	}
}
