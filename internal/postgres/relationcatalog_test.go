package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

func TestLookupCatalog(t *testing.T) {
	if testing.Short() {
		t.Skip("needs Postgres")
	}
	db := testkit.Postgres(t)
	db.Exec(t, `CREATE TYPE mood AS ENUM ('sad', 'ok')`)
	db.Exec(t, `CREATE DOMAIN price AS numeric(10,2)`)
	db.Exec(t,
		`CREATE TABLE outbox (id uuid PRIMARY KEY, mood mood NOT NULL, moods mood[], price price, dropped int,
			payload jsonb)`)
	db.Exec(t, `ALTER TABLE outbox DROP COLUMN dropped`)

	conn, err := pgx.Connect(t.Context(), db.DSN)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rel := &pgoutput.Relation{Namespace: "public", Name: "outbox"}
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT 'outbox'::regclass::oid`).Scan(&rel.OID))
	rows, err := conn.Query(t.Context(),
		`SELECT attname::text, atttypid FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped
			ORDER BY attnum`, rel.OID)
	require.NoError(t, err)
	var c pgoutput.Column
	_, err = pgx.ForEachRow(rows, []any{&c.Name, &c.TypeOID}, func() error {
		rel.Columns = append(rel.Columns, c)
		return nil
	})
	require.NoError(t, err)

	found, err := LookupCatalog(db.DSN, rel)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"id": false, "mood": false, "moods": true, "price": true, "payload": true},
		found.Nullable)
	mood := rel.Columns[rel.Column("mood")].TypeOID
	require.Equal(t, CatalogType{Name: "mood", Kind: "e", Labels: []string{"sad", "ok"}, BaseModifier: -1},
		found.Types[mood])
	require.Equal(t, mood, found.Types[rel.Columns[rel.Column("moods")].TypeOID].Element)
	price := found.Types[rel.Columns[rel.Column("price")].TypeOID]
	require.Equal(t, uint32(1700), price.Base)
	require.Equal(t, int32(4+10<<16+2), price.BaseModifier)
	require.Contains(t, found.Types, uint32(1700), "a domain's base type is looked up too")
	require.Zero(t, found.Types[3802].Element)

	_, err = LookupCatalog("postgres://nobody@127.0.0.1:1/x", rel)
	require.Equal(t, fault.Retry, fault.KindOf(err))
}
