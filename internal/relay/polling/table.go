package polling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// Setup describes the database objects that polling needs.
type Setup struct {
	Dial    pgconn.DialFunc // nil: as the connection string says
	Tables  []identifier.Table
	Columns Columns
	After   After
	Notify  bool

	// TableDDL creates the outbox tables; empty: a missing table is an error. TableHint is shown in its place.
	TableDDL, TableHint string
	// Role gets the grants that the relay needs and no others; it is created when it is missing. Empty: no grants.
	Role string
	// PublishExisting has rows that are in the table before it gets its columns count as not published.
	PublishExisting bool
	// LastWord is the table that keeps why a relay ended, as postgres.checkpoint names it. Empty: none.
	LastWord identifier.Table
	// Decisions is the table of operators' decisions, as postgres.decisions names it, and Relay this relay's name
	// there. Empty: none.
	Decisions identifier.Table
	Relay     string
}

func (s Setup) connect(ctx context.Context, dsn, application string) (*pgx.Conn, error) {
	return postgres.Open(ctx, dsn, s.options(application))
}

func (s Setup) options(application string) postgres.ConnectOptions {
	return postgres.ConnectOptions{Application: application, Unprepared: true, Dial: s.Dial}
}

// tableState is an outbox table as the catalog has it.
type tableState struct {
	Table       identifier.Table `json:"-"`
	Exists      bool             `json:"-"`
	Kind        string           `json:"kind"`        // pg_class.relkind
	Persistence string           `json:"persistence"` // pg_class.relpersistence
	Filtered    bool             `json:"filtered"`    // row security hides rows from the connected role
	Owned       bool             `json:"owned"`
	MaySelect   bool             `json:"may_select"`
	MayMark     bool             `json:"may_mark"`
	HasTrigger  bool             `json:"has_trigger"`
	// pg_index.indisvalid of the index that setup makes, as text; null: there is none
	Index   *string       `json:"index"`
	Columns []columnState `json:"columns"`

	plan string // of the statement that reads lanes; empty if it cannot be made
}

type columnState struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Category string `json:"category"` // pg_type.typcategory
	NotNull  bool   `json:"not_null"`
	Identity string `json:"identity"` // a always, d by default, empty: none
	Cache    int64  `json:"cache"`    // of the sequence that the column owns; 0: none
	Comment  string `json:"comment"`
}

func (t *tableState) column(name string) (columnState, bool) {
	for _, c := range t.Columns {
		if c.Name == name {
			return c, true
		}
	}
	return columnState{}, false
}

func (t *tableState) partitioned() bool { return t.Kind == "p" }

// tableSQL: a sequence belongs to a column by an automatic dependency ('a', serial) or an internal one ('i', identity).
const tableSQL = `
SELECT jsonb_build_object('kind', c.relkind, 'persistence', c.relpersistence, 'filtered', row_security_active(c.oid),
'owned', pg_has_role(c.relowner, 'USAGE'),
  'may_select', has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'),
  'may_mark', CASE WHEN $4 THEN has_table_privilege(c.oid, 'DELETE') ELSE has_table_privilege(c.oid, 'UPDATE') OR
      EXISTS (SELECT FROM pg_catalog.pg_attribute p WHERE p.attrelid = c.oid AND p.attname = $3
        AND has_column_privilege(c.oid, p.attnum, 'UPDATE')) END,
  'has_trigger', EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = $5
    AND t.tgenabled <> 'D'),
  'index', (SELECT x.indisvalid::text FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
    WHERE x.indrelid = c.oid AND i.relname = $6),
  'columns', (SELECT coalesce(jsonb_agg(jsonb_build_object('name', a.attname, 'type', format_type(b.oid, NULL),
    'category', b.typcategory, 'not_null', a.attnotnull,
      'identity', a.attidentity, 'comment', coalesce(pg_catalog.col_description(c.oid, a.attnum), ''), 'cache',
        coalesce((SELECT max(s.seqcache) FROM pg_catalog.pg_depend d
          JOIN pg_catalog.pg_sequence s ON s.seqrelid = d.objid
         WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
           AND d.refobjid = c.oid AND d.refobjsubid = a.attnum AND d.deptype IN ('a', 'i')), 0))
      ORDER BY a.attnum), '[]')
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    JOIN pg_catalog.pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped))::text
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = $1::text AND c.relname = $2::text`

// lookupTable reads the table's state. The plan shows better than a comparison of index definitions whether rows will
// be found by an index.
func lookupTable(ctx context.Context, conn *pgx.Conn, t identifier.Table, s *Setup) (*tableState, error) {
	st := &tableState{Table: t}
	var text []byte
	err := conn.QueryRow(ctx, tableSQL, t.Schema, t.Name, s.Columns.Published, s.After == Delete, triggerName,
		indexName(t)).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return st, nil
	}
	if err == nil {
		st.Exists = true
		err = json.Unmarshal(text, st)
	}
	if err != nil {
		return nil, postgres.QueryFault("table "+t.String(), err)
	}
	for _, name := range []string{s.Columns.Key, s.Columns.Sequence, s.Columns.Published} {
		if _, ok := st.column(name); !ok {
			return st, nil
		}
	}
	if !st.MaySelect || st.Filtered { // a read fails
		return st, nil
	}
	st.plan, err = explain(ctx, conn, t, s)
	return st, err
}

// explain returns the plan of a read, as it will be made.
func explain(ctx context.Context, conn *pgx.Conn, t identifier.Table, s *Setup) (string, error) {
	q := newStatements(&Config{Columns: s.Columns, After: s.After}, t)
	results, err := conn.PgConn().Exec(ctx, q.begin+"EXPLAIN (COSTS OFF) "+q.read([]int{0, 1}, 10)+"; COMMIT").ReadAll()
	if err != nil {
		_, _ = conn.PgConn().Exec(ctx, "ROLLBACK").ReadAll()
		return "", postgres.QueryFault("table "+t.String(), err)
	}
	var plan []string
	for _, r := range results {
		for _, row := range r.Rows {
			plan = append(plan, string(row[0]))
		}
	}
	return strings.Join(plan, "\n"), nil
}

// served reports whether the plan finds a lane's rows, in order, in an index.
func (t *tableState) served() bool {
	return t.plan != "" && !strings.Contains(t.plan, "Seq Scan") && !strings.Contains(t.plan, "Sort") &&
		strings.Contains(t.plan, "sha256") &&
		strings.Contains(t.plan, "Index Cond")
}

// The names of the trigger and function that setup makes.
const (
	triggerName  = "cdc_outbox_notify"
	functionName = "cdc_outbox_notify"
)

// indexName is cut to the length that Postgres takes.
func indexName(t identifier.Table) string {
	const suffix = "_unpublished_idx"
	name := t.Name
	for len(name)+len(suffix) > 63 {
		name = name[:len(name)-1]
	}
	return strings.ToValidUTF8(name, "") + suffix
}

// indexDDL is the index that everything is found by: the unpublished rows, by lane and sequence.
func indexDDL(t identifier.Table, c Columns, concurrently bool) string {
	how := ""
	if concurrently {
		how = "CONCURRENTLY "
	}
	return fmt.Sprintf("CREATE INDEX %sIF NOT EXISTS %s ON %s (%s, %s) WHERE %s IS NULL;",
		how, quoted(indexName(t)), t.SQL(), laneSQL(c.Key), quoted(c.Sequence), quoted(c.Published))
}
