package conformance

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/testkit"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// catalog is what Postgres' catalogs say about the tables of all cases.
type catalog struct {
	nullable map[uint32]map[string]bool // by relation and column
	types    map[uint32]router.PostgresType
}

func readCatalog(t *testing.T, db *testkit.Database) *catalog {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.DSN)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	c := &catalog{nullable: map[uint32]map[string]bool{}, types: map[uint32]router.PostgresType{}}
	rows, err := conn.Query(t.Context(), "SELECT attrelid, attname, NOT attnotnull FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped")
	require.NoError(t, err)
	var (
		relation uint32
		name     string
		nullable bool
	)
	_, err = pgx.ForEachRow(rows, []any{&relation, &name, &nullable}, func() error {
		if c.nullable[relation] == nil {
			c.nullable[relation] = map[string]bool{}
		}
		c.nullable[relation][name] = nullable
		return nil
	})
	require.NoError(t, err)
	rows, err = conn.Query(t.Context(), `SELECT oid, typname, typtype = 'e', typbasetype, typtypmod, typelem,
		ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = pg_type.oid ORDER BY enumsortorder) FROM pg_type`)
	require.NoError(t, err)
	var (
		oid  uint32
		info router.PostgresType
	)
	_, err = pgx.ForEachRow(rows, []any{&oid, &info.Name, &info.Enum, &info.Base, &info.BaseModifier, &info.Element, &info.Labels}, func() error {
		c.types[oid] = info
		info = router.PostgresType{}
		return nil
	})
	require.NoError(t, err)
	return c
}

// of answers the router.
func (c *catalog) of(rel *replication.Relation) (router.Catalog, error) {
	return router.Catalog{Types: c.types, Nullable: c.nullable[rel.OID]}, nil
}
