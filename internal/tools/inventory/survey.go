package inventory

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/writers"
)

// Survey is an inventory of a database.
type Survey struct {
	Database    string
	WALLevel    string
	Version     int  // server_version_num
	Replication bool // the role may create a slot

	Tables       []Table       // all tables of the database, without partitions
	Slots        []Slot        // its logical slots
	Publications []Publication // all of them
}

// Table is a table with its columns.
type Table struct {
	identifier.Table
	Columns []writers.Column
}

func (t Table) names() []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

// Slot is a logical slot.
type Slot struct {
	Name, Plugin string
	Active       bool
}

// Publication is a publication, and whether it is for all tables.
type Publication struct {
	Name      string
	AllTables bool
}

// Look asks the database and changes nothing.
func Look(ctx context.Context, dsn string) (*Survey, error) {
	conn, err := postgres.Open(ctx, dsn, postgres.ConnectOptions{
		Application: "cdc-outbox", Unprepared: true, Rows: true, // a database may have any number of tables
	})
	if err != nil {
		return nil, err
	}
	defer postgres.CloseConn(conn)
	s := &Survey{}
	failed := func(what string, err error) (*Survey, error) {
		return nil, &fault.Error{Kind: sqlstate.KindOf(sqlstate.Of(err)), Object: what, Err: err}
	}
	err = conn.QueryRow(ctx, `SELECT current_database(), `+postgres.WALLevelSQL+`,
		current_setting('server_version_num')::int,
		(SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user)`).
		Scan(&s.Database, &s.WALLevel, &s.Version, &s.Replication)
	if err != nil {
		return failed("database", err)
	}
	s.Tables, err = rows(ctx, conn, `SELECT n.nspname, c.relname, array_agg(a.attname::text ORDER BY a.attnum),
			array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum),
			array_agg(coalesce(a.attnum = i.indkey[0] AND i.indnkeyatts = 1, false) ORDER BY a.attnum)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname !~ '^pg_'
			AND n.nspname <> 'information_schema'
		GROUP BY 1, 2 ORDER BY 1, 2`,
		scanTable)
	if err != nil {
		return failed("tables", err)
	}
	s.Slots, err = rows(ctx, conn, `SELECT slot_name, plugin, active FROM pg_replication_slots
		WHERE database = current_database() ORDER BY 1`,
		func(r pgx.CollectableRow) (x Slot, err error) { return x, r.Scan(&x.Name, &x.Plugin, &x.Active) })
	if err != nil {
		return failed("replication slots", err)
	}
	s.Publications, err = rows(ctx, conn, `SELECT pubname, puballtables FROM pg_publication ORDER BY 1`,
		func(r pgx.CollectableRow) (p Publication, err error) { return p, r.Scan(&p.Name, &p.AllTables) })
	if err != nil {
		return failed("publications", err)
	}
	return s, nil
}

func scanTable(r pgx.CollectableRow) (t Table, err error) {
	var names, types []string
	var primary []bool
	err = r.Scan(&t.Schema, &t.Name, &names, &types, &primary)
	for i := range names {
		t.Columns = append(t.Columns, writers.Column{Name: names[i], Type: types[i], Primary: primary[i]})
	}
	return t, err
}

func rows[T any](ctx context.Context, conn *pgx.Conn, sql string, scan pgx.RowToFunc[T]) ([]T, error) {
	found, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, scan)
}
