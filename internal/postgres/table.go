package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// OutboxTable is an outbox table as the catalog has it.
type OutboxTable struct {
	Table       identifier.Table
	Exists      bool
	Meant       *identifier.Table // of a missing table: the table whose name differs in case only
	Kind        string            // pg_class.relkind: r table, p partitioned table, v view, …
	Persistence string            // pg_class.relpersistence: p, u unlogged, t temporary
	Selectable  bool              // the connected role may SELECT from it
	Owned       bool              // the connected role may publish it
	Parts       []Part
	Chunks      string // of a hypertable of TimescaleDB: the schema in which it makes its parts
	Filtered    bool   // row security applies to the connected role
	Columns     []TableColumn
	Unique      [][]string // columns of its unique indexes that hold all of its rows
	PartitionBy []string   // columns of its partition key
}

// Part is a table below the outbox whose rows a query of the outbox returns: a partition, or a table that inherits from
// it. Partitions are published by their root, the others by their own names.
type Part struct {
	Table   identifier.Table
	Parent  identifier.Table
	Foreign bool // it is a foreign table
	Logged  bool // its rows reach the WAL
}

// TableColumn is one column. Category is pg_type.typcategory (Postgres docs, table 53.65): S string, U user-defined
// (json, uuid, bytea), D date and time, N numeric, E enum …
type TableColumn struct {
	Name      string `json:"name"`
	Type      string `json:"type"`
	Category  string `json:"category"`
	NotNull   bool   `json:"not_null"`
	Generated bool   `json:"generated"`
	Stored    bool   `json:"stored"` // of a generated column: the WAL has its value
}

// Partitioned reports whether it is a partitioned table.
func (t OutboxTable) Partitioned() bool { return t.Kind == "p" }

// Inheriting lists the tables that inherit from it and are not partitions.
func (t OutboxTable) Inheriting() []Part {
	if t.Partitioned() {
		return nil
	}
	return t.Parts
}

// Column returns the column of that name.
func (t OutboxTable) Column(name string) (TableColumn, bool) {
	i := slices.IndexFunc(t.Columns, func(c TableColumn) bool { return c.Name == name })
	if i < 0 {
		return TableColumn{}, false
	}
	return t.Columns[i], true
}

// ColumnNames lists the columns in the order of the table.
func (t OutboxTable) ColumnNames() []string {
	names := make([]string, 0, len(t.Columns))
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	return names
}

// UniqueBy reports whether no two rows can have the same value of the column. In a partitioned table that holds within
// each partition at best: a unique index of it has the partition key besides.
func (t OutboxTable) UniqueBy(column string) bool {
	return slices.ContainsFunc(t.Unique, func(of []string) bool {
		return slices.Contains(of, column) && !slices.ContainsFunc(of, func(c string) bool {
			return c != column && !slices.Contains(t.PartitionBy, c)
		})
	})
}

// CastType is what the text of a column's value is cast to, so that the column's index serves. Without a length,
// character and bit mean one of them, to which an explicit cast cuts the value without a word (Postgres docs 8.3 and
// 8.10).
func (t OutboxTable) CastType(column string) string {
	c, ok := t.Column(column)
	switch {
	case !ok:
		return "text" // the server names the column that is missing
	case c.Type == "character":
		return "bpchar"
	case c.Type == "bit":
		return "varbit"
	}
	return c.Type
}

// tableSQL resolves domains to their base type, since it is the base type that is printed. The rows of a temporary
// table that inherits are for its own session alone, and queries pass over a partition that is being detached.
const tableSQL = `
SELECT c.relkind::text, c.relpersistence::text, has_schema_privilege(n.oid, 'USAGE')
  AND has_table_privilege(c.oid, 'SELECT'),
       pg_has_role(c.relowner, 'USAGE'),
       (WITH RECURSIVE below(oid, parent) AS (
          SELECT inhrelid, inhparent FROM pg_catalog.pg_inherits WHERE inhparent = c.oid AND NOT inhdetachpending
          UNION SELECT i.inhrelid, i.inhparent FROM below b JOIN pg_catalog.pg_inherits i ON i.inhparent = b.oid
           WHERE NOT i.inhdetachpending)
        SELECT coalesce(jsonb_agg(jsonb_build_object('schema', p.nspname, 'name', p.relname, 'foreign', p.relkind = 'f',
                                  'logged', p.relkind = 'r' AND p.relpersistence = 'p',
                                  'parentschema', p.parentschema, 'parentname', p.parentname)
                                  ORDER BY p.nspname, p.relname), '[]')::text
          FROM (SELECT DISTINCT ON (l.oid) ln.nspname, l.relname, l.relkind, l.relpersistence,
                       hn.nspname AS parentschema, h.relname AS parentname
                  FROM below b
                  JOIN pg_catalog.pg_class l ON l.oid = b.oid JOIN pg_catalog.pg_namespace ln ON ln.oid = l.relnamespace
                  JOIN pg_catalog.pg_class h ON h.oid = b.parent
                  JOIN pg_catalog.pg_namespace hn ON hn.oid = h.relnamespace
                 WHERE l.relkind IN ('r', 'f') AND l.relpersistence <> 't') p),
       row_security_active(c.oid),
       (SELECT coalesce(jsonb_agg(jsonb_build_object('name', a.attname, 'type', format_type(b.oid, NULL),
                                                     'category', b.typcategory, 'not_null', a.attnotnull,
                                                     'generated', a.attgenerated <> '',
                                                     'stored', a.attgenerated = 's')
                                  ORDER BY a.attnum), '[]')::text
          FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
          JOIN pg_catalog.pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
       (SELECT coalesce(jsonb_agg((SELECT jsonb_agg(a.attname ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
                                    WHERE a.attrelid = c.oid AND a.attnum = ANY (x.indkey[0:x.indnkeyatts - 1]))
                                  ORDER BY x.indexrelid), '[]')::text
          FROM pg_catalog.pg_index x
         WHERE x.indrelid = c.oid AND x.indisunique AND x.indisvalid AND x.indpred IS NULL AND x.indexprs IS NULL),
       (SELECT coalesce(jsonb_agg(a.attname ORDER BY a.attnum), '[]')::text
          FROM pg_catalog.pg_partitioned_table k
          JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (k.partattrs)
         WHERE k.partrelid = c.oid),
       EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'timescaledb')
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = $1::text AND c.relname = $2::text`

// LookupTable reads a table from the catalog. Exists is false where there is none of that name.
func LookupTable(ctx context.Context, q Querier, t identifier.Table) (OutboxTable, error) {
	info := OutboxTable{Table: t, Exists: true}
	var parts, columns, unique, partitionBy []byte
	var timescale bool
	err := q.QueryRow(ctx, tableSQL, t.Schema, t.Name).Scan(&info.Kind, &info.Persistence, &info.Selectable,
		&info.Owned, &parts, &info.Filtered, &columns, &unique, &partitionBy, &timescale)
	if errors.Is(err, pgx.ErrNoRows) {
		info = OutboxTable{Table: t}
		if info.Meant, err = meant(ctx, q, t); err != nil {
			return OutboxTable{}, fmt.Errorf("look for names like %s: %w", t, err)
		}
		return info, nil
	}
	if err != nil {
		return OutboxTable{}, fmt.Errorf("read table %s: %w", t, err)
	}
	var below []struct {
		Schema, Name             string
		ParentSchema, ParentName string
		Foreign, Logged          bool
	}
	if err := errors.Join(json.Unmarshal(parts, &below),
		json.Unmarshal(columns, &info.Columns), json.Unmarshal(unique, &info.Unique),
		json.Unmarshal(partitionBy, &info.PartitionBy)); err != nil {
		return OutboxTable{}, fmt.Errorf("read table %s: %w", t, err)
	}
	for _, p := range below {
		info.Parts = append(info.Parts, Part{
			Table:  identifier.Table{Schema: p.Schema, Name: p.Name},
			Parent: identifier.Table{Schema: p.ParentSchema, Name: p.ParentName}, Foreign: p.Foreign, Logged: p.Logged,
		})
	}
	if timescale {
		info.Chunks, err = lookupChunks(ctx, q, t)
	}
	return info, err
}

// lookupChunks reads TimescaleDB's own catalog, which every role may read; empty: the table is not a hypertable.
func lookupChunks(ctx context.Context, q Querier, t identifier.Table) (schema string, err error) {
	err = q.QueryRow(ctx, `SELECT coalesce((SELECT associated_schema_name::text FROM _timescaledb_catalog.hypertable
		WHERE schema_name = $1::text AND table_name = $2::text), '')`, t.Schema, t.Name).Scan(&schema)
	if err != nil {
		return "", fmt.Errorf("see whether table %s is a hypertable: %w", t, err)
	}
	return schema, nil
}

// meant finds the one table that an unquoted name may have been written for, nil if there is none or several.
func meant(ctx context.Context, q Querier, t identifier.Table) (*identifier.Table, error) {
	var names []string
	err := q.QueryRow(ctx, `SELECT array_agg(x) FROM (SELECT unnest(ARRAY[n.nspname, c.relname]) AS x
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE lower(n.nspname) = lower($1::text) AND lower(c.relname) = lower($2::text)
		  AND c.relkind IN ('r', 'p')) AS names`, t.Schema, t.Name).Scan(&names)
	if err != nil || len(names) != 2 {
		return nil, err
	}
	return &identifier.Table{Schema: names[0], Name: names[1]}, nil
}
