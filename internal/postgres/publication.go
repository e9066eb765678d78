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

// Publication is one publication of the connected database.
type Publication struct {
	Name      string
	Exists    bool // false: everything else is zero
	Comment   string
	Owned     bool // the connected role may change it
	AllTables bool // FOR ALL TABLES
	Insert    bool // publishes INSERT, the only thing an outbox needs
	Update    bool
	Delete    bool
	Truncate  bool
	ViaRoot   bool // publish_via_partition_root: a partition's rows come under the name of the partitioned table
	Tables    []PublishedTable
}

// PublishedTable is a table whose rows come through the publication, under the name they come with: for a partitioned
// table published without publish_via_partition_root that is each partition, not the root.
type PublishedTable struct {
	Table     identifier.Table
	Columns   []string // 15+: the columns that are sent; nil before 15, where all are
	RowFilter string   // 15+: the WHERE clause; empty: all rows
	Listed    bool     // the publication names it: it comes neither with its schema nor as a partition
}

// Table returns the published table of that name.
func (p Publication) Table(t identifier.Table) (PublishedTable, bool) {
	i := slices.IndexFunc(p.Tables, func(pt PublishedTable) bool { return pt.Table == t })
	if i < 0 {
		return PublishedTable{}, false
	}
	return p.Tables[i], true
}

// publicationSQL reads the publication and, as JSON, the view pg_publication_tables, in which Postgres has worked out
// FOR ALL TABLES, TABLES IN SCHEMA and partitions already; its columns attnames and rowfilter exist from 15 on.
const publicationSQL = `
SELECT coalesce(obj_description(p.oid, 'pg_publication'), ''), pg_has_role(p.pubowner, 'USAGE'),
       p.puballtables, p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate, p.pubviaroot,
       (SELECT coalesce(jsonb_agg(to_jsonb(t) || jsonb_build_object('listed', EXISTS (
                 SELECT FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_class c ON c.oid = r.prrelid
                   JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                  WHERE r.prpubid = p.oid AND n.nspname = t.schemaname AND c.relname = t.tablename))
                 ORDER BY t.schemaname, t.tablename), '[]')::text
          FROM pg_catalog.pg_publication_tables t WHERE t.pubname = p.pubname)
  FROM pg_catalog.pg_publication p WHERE p.pubname = $1::text`

// LookupPublication reads one publication, Postgres 14 to 18. No such publication is not an error: Exists is false
// then. Errors are the connection's own.
func LookupPublication(ctx context.Context, q Querier, publication string) (Publication, error) {
	p := Publication{Name: publication, Exists: true}
	var tables []byte
	err := q.QueryRow(ctx, publicationSQL, publication).Scan(&p.Comment, &p.Owned, &p.AllTables,
		&p.Insert, &p.Update, &p.Delete, &p.Truncate, &p.ViaRoot, &tables)
	if errors.Is(err, pgx.ErrNoRows) {
		return Publication{Name: publication}, nil
	}
	if err != nil {
		return Publication{}, fmt.Errorf("read publication %q: %w", publication, err)
	}
	p.Tables, err = parsePublishedTables(tables)
	return p, err
}

func parsePublishedTables(rows []byte) ([]PublishedTable, error) {
	var parsed []struct {
		SchemaName string   `json:"schemaname"`
		TableName  string   `json:"tablename"`
		AttNames   []string `json:"attnames"`
		RowFilter  *string  `json:"rowfilter"`
		Listed     bool     `json:"listed"`
	}
	if err := json.Unmarshal(rows, &parsed); err != nil {
		return nil, fmt.Errorf("read pg_publication_tables: %w", err)
	}
	tables := make([]PublishedTable, 0, len(parsed))
	for _, r := range parsed {
		tables = append(tables, PublishedTable{
			Table: identifier.Table{Schema: r.SchemaName, Name: r.TableName}, Columns: r.AttNames,
			RowFilter: orZero(r.RowFilter), Listed: r.Listed,
		})
	}
	return tables, nil
}
