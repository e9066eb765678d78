package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// CatalogType is a row of pg_type.
type CatalogType struct {
	Name         string
	Kind         string   // typtype: b, c, d, e, p, r, m
	Labels       []string // of an enum, in sort order
	Base         uint32   // of a domain
	BaseModifier int32
	Element      uint32 // of an array
}

// Catalog is what the catalogs say now about a relation of the log. A table that was changed since is described as it
// has become; of one that was dropped nothing is known.
type Catalog struct {
	Types    map[uint32]CatalogType // the columns' types, and the types they consist of
	Nullable map[string]bool        // by column
}

// The types are from the Relation message, not the types that the columns have now.
const catalogTypesSQL = `
WITH RECURSIVE used(oid) AS (
  SELECT unnest($1::oid[])
  UNION
  SELECT made.oid FROM used JOIN pg_catalog.pg_type t ON t.oid = used.oid
   CROSS JOIN LATERAL (VALUES (t.typbasetype), (CASE WHEN t.typcategory = 'A' THEN t.typelem END)) made(oid)
   WHERE made.oid <> 0)
SELECT t.oid, t.typname, t.typtype::text, t.typbasetype, t.typtypmod,
       CASE WHEN t.typcategory = 'A' AND t.typtype = 'b' THEN t.typelem ELSE 0 END,
       ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)
  FROM used JOIN pg_catalog.pg_type t ON t.oid = used.oid`

const catalogColumnsSQL = `SELECT attname, NOT attnotnull FROM pg_catalog.pg_attribute WHERE attrelid = $1
	AND attnum > 0 AND NOT attisdropped`

// catalogTimeout bounds the whole question: the stream waits for the answer.
const catalogTimeout = 10 * time.Second

// LookupCatalog asks on a connection of its own. It fails with a fault of kind Retry where the server cannot be asked.
func LookupCatalog(dsn string, rel *pgoutput.Relation) (Catalog, error) {
	ctx, cancel := context.WithTimeout(context.Background(), catalogTimeout)
	defer cancel()
	conn, err := Open(ctx, dsn, ConnectOptions{})
	if err != nil {
		return Catalog{}, err
	}
	defer CloseConn(conn)
	c, err := readCatalog(ctx, conn, rel)
	if err != nil {
		return Catalog{}, &fault.Error{
			Kind: fault.Retry, Object: "catalogs of " + identifier.Table{
				Schema: rel.Namespace, Name: rel.Name,
			}.String(), Err: err,
		}
	}
	return c, nil
}

func readCatalog(ctx context.Context, conn *pgx.Conn, rel *pgoutput.Relation) (Catalog, error) {
	c := Catalog{Types: map[uint32]CatalogType{}, Nullable: map[string]bool{}}
	oids := make([]uint32, len(rel.Columns))
	for i := range rel.Columns {
		oids[i] = rel.Columns[i].TypeOID
	}
	rows, err := conn.Query(ctx, catalogTypesSQL, oids)
	if err != nil {
		return c, err
	}
	var oid uint32
	var t CatalogType
	_, err = pgx.ForEachRow(rows, []any{&oid, &t.Name, &t.Kind, &t.Base, &t.BaseModifier, &t.Element, &t.Labels},
		func() error {
			c.Types[oid] = t
			t.Labels = nil
			return nil
		})
	if err != nil {
		return c, err
	}
	if rows, err = conn.Query(ctx, catalogColumnsSQL, rel.OID); err != nil {
		return c, err
	}
	var name string
	var nullable bool
	_, err = pgx.ForEachRow(rows, []any{&name, &nullable}, func() error {
		c.Nullable[name] = nullable
		return nil
	})
	return c, err
}
