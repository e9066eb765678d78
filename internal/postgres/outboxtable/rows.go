package outboxtable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Key is a row's place in the order of a scan: the texts of the timestamp and of the id, without the former where it is
// NULL or not mapped. It can be stored, and a later run can continue from it.
type Key struct {
	Timestamp *string `json:"timestamp,omitempty"`
	ID        string  `json:"id"`
}

// Rows reads an outbox table page by page, in the order of timestamp and id, rows without a timestamp last. Each page
// is a statement of its own, so no snapshot is held open however long the reader takes. For one goroutine. Close it.
type Rows struct {
	conn   *pgx.Conn
	cfg    setup.Config
	table  identifier.Table
	info   postgres.OutboxTable
	filter Filter
	began  time.Time
	newer  time.Time // see LeaveNewer
	lacks  string    // the timestamp's column, where it is mapped and the table has none

	below   *Horizon // see Below
	columns string   // see KeysOnly
	root    uint32   // see Partitions
	rel     *pgoutput.Relation
}

// Open connects, with the settings under which values have the texts that the log gives them. A row beyond cfg.LongRow
// ends the read of it with an error that wraps a *postgres.LongRowError; Close is all that can be done then.
func Open(ctx context.Context, dsn string, cfg setup.Config, table identifier.Table, filter Filter) (*Rows, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	conn, err := postgres.Open(ctx, dsn, postgres.ConnectOptions{Timeout: cfg.ConnectTimeout, Rows: true})
	if err != nil {
		return nil, err
	}
	postgres.LimitRows(conn, cfg.LongRow)
	r := &Rows{conn: conn, cfg: cfg, table: table, filter: filter}
	if err := r.prepareSession(ctx); err != nil {
		r.Close()
		return nil, postgres.QueryFault("table "+table.String(), err)
	}
	return r, nil
}

func (r *Rows) prepareSession(ctx context.Context) (err error) {
	for name, value := range session.TextSettings() {
		if _, err := r.conn.Exec(ctx, "SELECT set_config($1, $2, false)", name, value); err != nil {
			return err
		}
	}
	if r.info, err = postgres.LookupTable(ctx, r.conn, r.table); err != nil {
		return err
	}
	if !r.info.Exists {
		return &fault.Error{
			Kind: fault.Operator, Object: "table " + r.table.String(), Err: errors.New("it does not exist"),
		}
	}
	if r.info.Filtered {
		return (&fault.Error{
			Kind: fault.Operator, Object: "table " + r.table.String(),
			Err: fmt.Errorf("row security applies to role %q, so rows may be hidden from it that the stream has",
				r.conn.Config().User),
		}).With(postgres.SeeAllRows(r.conn.Config().User))
	}
	if err := r.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&r.began); err != nil {
		return err
	}
	if err := r.filterable(); err != nil {
		return err
	}
	columns := []string{r.cfg.Columns.ID}
	if ts := r.cfg.Columns.Timestamp; ts != "" {
		if _, ok := r.info.Column(ts); !ok { // the stream takes the commit's time in its place
			r.lacks, r.cfg.Columns.Timestamp = ts, ""
		}
	}
	if ts := r.cfg.Columns.Timestamp; ts != "" {
		columns = append(columns, ts)
	} else if !r.filter.Since.IsZero() || !r.filter.Until.IsZero() {
		return r.timeless("time range", "so no row lies in one", "Leave the time range out.")
	}
	for _, name := range columns {
		if c, ok := r.info.Column(name); !ok {
			return &fault.Error{
				Kind: fault.Operator, Object: "table " + r.table.String(),
				Err: fmt.Errorf("it has no column %s", identifier.Quote(name)),
			}
		} else if name == r.cfg.Columns.Timestamp && c.Category != "D" {
			return &fault.Error{
				Kind: fault.Operator, Object: "table " + r.table.String(),
				Err: fmt.Errorf("column %s is %s, no time, so its rows cannot be put in order by it",
					identifier.Quote(name), c.Type),
			}
		}
	}
	return r.refuseNullIDs(ctx)
}

// filterable refuses a filter by what no column of the table holds.
func (r *Rows) filterable() error {
	for _, by := range []struct {
		what, column string
		values       []string
	}{
		{"aggregate type", r.cfg.Columns.AggregateType, r.filter.AggregateTypes},
		{"aggregate id", r.cfg.Columns.AggregateID, r.filter.AggregateIDs},
	} {
		if by.column == "" && len(by.values) > 0 {
			return &fault.Error{
				Kind: fault.Config, Object: "table " + r.table.String(),
				Err:  fmt.Errorf("no column of it holds the %s, so rows cannot be chosen by it", by.what),
				Next: "Choose the rows by id or time.",
			}
		}
	}
	return nil
}

// timeless is why what needs the rows' times cannot be done.
func (r *Rows) timeless(object, so, instead string) error {
	f := &fault.Error{
		Kind: fault.Config, Object: object, Err: fmt.Errorf("no timestamp column is mapped, %s", so),
		Next: strings.TrimSpace("Set router.columns.timestamp to a column that has the events' times. " + instead),
	}
	if r.lacks != "" {
		f.Kind, f.Err = fault.Operator, fmt.Errorf("table %s has no column %s, %s", r.table, identifier.Quote(r.lacks),
			so)
	}
	return f
}

// refuseNullIDs finds the rows that no key leads to. They are not events either.
func (r *Rows) refuseNullIDs(ctx context.Context) error {
	id, _ := r.info.Column(r.cfg.Columns.ID)
	if id.NotNull {
		return nil
	}
	var some bool
	err := r.conn.QueryRow(ctx, fmt.Sprintf("SELECT EXISTS (SELECT FROM %s WHERE %s IS NULL)", r.table.SQL(),
		identifier.Quote(id.Name))).Scan(&some)
	if err == nil && some {
		err = &fault.Error{
			Kind: fault.Operator, Object: "table " + r.table.String(),
			Err:  fmt.Errorf("it has rows whose %s is NULL", identifier.Quote(id.Name)),
			Next: "Give them ids or delete them, and let the column take no NULL.",
			Commands: []string{fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET NOT NULL;", r.table.SQL(),
				identifier.Quote(id.Name))},
		}
	}
	return err
}

// Ordered says, where the table lacks the column of the timestamp, in which order rows come instead; it is empty where
// nothing is to say.
func (r *Rows) Ordered() string {
	if r.lacks == "" {
		return ""
	}
	return fmt.Sprintf("Table %s has no column %s (router.columns.timestamp): its rows go in the order of their ids, "+
		"which is that of the events only where ids ascend.", r.table, identifier.Quote(r.lacks))
}

// Began is the server's time when the table was opened.
func (r *Rows) Began() time.Time { return r.began }

// Since is the filter's.
func (r *Rows) Since() time.Time { return r.filter.Since }

// WALEnd is where the log ends now; on a standby, how far it has got.
func (r *Rows) WALEnd(ctx context.Context) (lsn.LSN, error) {
	var text string
	err := r.conn.QueryRow(ctx, "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE "+
		"pg_current_wal_insert_lsn() END::text").Scan(&text)
	if err != nil {
		return 0, postgres.QueryFault("server", err)
	}
	return lsn.Parse(text)
}

// LeaveNewer leaves out rows from a time on. Unlike the filter's Until it leaves rows without a time in.
func (r *Rows) LeaveNewer(t time.Time) { r.newer = t }

// Close ends the connection.
func (r *Rows) Close() { postgres.CloseConn(r.conn) }

// Page hands over up to about limit rows after a key, nil for the first. Rows with the key of the page's last come with
// it, so none is passed over where ids are not unique. A row lives until take returns, whose error ends the page. more
// is false when there is nothing left.
func (r *Rows) Page(ctx context.Context, after *Key, limit int,
	take func(rel *pgoutput.Relation, row pgoutput.Tuple, key Key) error,
) (more bool, err error) {
	timed := r.cfg.Columns.Timestamp != "" && (after == nil || after.Timestamp != nil)
	if timed {
		n, err := r.read(ctx, after, true, limit, take)
		if err != nil || n > 0 {
			return n > 0, err
		}
		if !r.filter.Since.IsZero() || !r.filter.Until.IsZero() || r.below != nil {
			return false, nil // a row without a time lies in no range
		}
		after = nil
	}
	n, err := r.read(ctx, after, false, limit, take)
	return n > 0, err
}

func (r *Rows) read(ctx context.Context, after *Key, timed bool, limit int,
	take func(*pgoutput.Relation, pgoutput.Tuple, Key) error,
) (n int, err error) {
	sql, args := r.query(after, timed, limit)
	return r.scan(ctx, sql, args, take)
}

// scan hands over what a statement returns, in the texts of the log.
func (r *Rows) scan(ctx context.Context, sql string, args [][]byte,
	take func(*pgoutput.Relation, pgoutput.Tuple, Key) error,
) (n int, err error) {
	// A statement of its own for each read: the server is not asked for the forms of types that only pgx would need.
	rows := r.conn.PgConn().ExecParams(ctx, sql, args, nil, nil, nil)
	var rel *pgoutput.Relation
	var tuple pgoutput.Tuple
	for err == nil && rows.NextRow() {
		if rel == nil {
			rel = r.relation(rows.FieldDescriptions())
			tuple = make(pgoutput.Tuple, len(rel.Columns))
		}
		for i, v := range rows.Values() {
			tuple[i] = pgoutput.Value{Kind: pgoutput.Null}
			if v != nil {
				tuple[i] = pgoutput.Value{Kind: pgoutput.Text, Data: v}
			}
		}
		n++
		err = take(rel, tuple, r.key(rel, tuple))
	}
	_, closed := rows.Close()
	if err == nil && closed != nil {
		err = postgres.QueryFault("table "+r.table.String(), closed)
	}
	return n, err
}

// IDIsBytes reports whether ids are bytea.
func (r *Rows) IDIsBytes() bool { return r.info.CastType(r.cfg.Columns.ID) == "bytea" }

// ByID hands over the rows with these ids, in the order of the ids, and whether the filter chooses them. An id that the
// column's type cannot hold is in no row.
func (r *Rows) ByID(ctx context.Context, ids []string,
	take func(rel *pgoutput.Relation, row pgoutput.Tuple, key Key, chosen bool) error,
) error {
	typ := r.info.CastType(r.cfg.Columns.ID)
	sql := fmt.Sprintf("SELECT * FROM %s WHERE %s = ANY ($1::text[]::%s[]) ORDER BY "+
		"array_position($1::text[]::%[3]s[], %[2]s)", r.table.SQL(), identifier.Quote(r.cfg.Columns.ID), typ)
	n, err := r.scan(ctx, sql, [][]byte{[]byte(arrayLiteral(ids))},
		func(rel *pgoutput.Relation, row pgoutput.Tuple, key Key) error {
			ok, err := r.filter.Match(r.cfg.Columns, rel, row)
			if err != nil {
				return err
			}
			return take(rel, row, key, ok)
		})
	// A topic may have records of others, with ids of their own form (class 22: data exception).
	if err != nil && n == 0 && strings.HasPrefix(sqlstate.Of(err), "22") {
		if len(ids) == 1 {
			return nil
		}
		for i := range ids {
			if err := r.ByID(ctx, ids[i:i+1], take); err != nil {
				return err
			}
		}
		return nil
	}
	return err
}

func (r *Rows) query(after *Key, timed bool, limit int) (sql string, args [][]byte) {
	arg := func(text, typ string) string {
		args = append(args, []byte(text))
		return fmt.Sprintf("$%d::%s", len(args), typ)
	}
	c := r.cfg.Columns
	var where []string
	anyOf := func(column string, values []string) {
		if len(values) > 0 {
			where = append(where, fmt.Sprintf("%s = ANY (%s::%s[])", identifier.Quote(column),
				arg(arrayLiteral(values), "text[]"), r.info.CastType(column)))
		}
	}
	anyOf(c.ID, r.filter.IDs)
	anyOf(c.AggregateType, r.filter.AggregateTypes)
	anyOf(c.AggregateID, r.filter.AggregateIDs)
	ts, id := identifier.Quote(c.Timestamp), identifier.Quote(c.ID)
	order := id
	if c.Timestamp != "" {
		where = append(where, ts+map[bool]string{true: " IS NOT NULL", false: " IS NULL"}[timed])
	}
	if timed {
		order = ts + ", " + id
		if !r.filter.Since.IsZero() {
			where = append(where, ts+" >= "+arg(r.filter.Since.UTC().Format(time.RFC3339Nano), "timestamptz"))
		}
		for _, t := range []time.Time{r.filter.Until, r.newer} {
			if !t.IsZero() {
				where = append(where, ts+" < "+arg(t.UTC().Format(time.RFC3339Nano), "timestamptz"))
			}
		}
	}
	switch {
	case after == nil:
	case timed: // the first half is implied by the second, and served by an index on the timestamp
		from := arg(*after.Timestamp, r.info.CastType(c.Timestamp))
		where = append(where, fmt.Sprintf("%s >= %s AND (%s, %s) > (%s, %s)", ts, from, ts, id, from,
			arg(after.ID, r.info.CastType(c.ID))))
	default:
		where = append(where, fmt.Sprintf("%s > %s", id, arg(after.ID, r.info.CastType(c.ID))))
	}
	if r.below != nil && timed {
		where = append(where, r.below.where(ts))
	}
	columns := "*"
	if r.columns != "" {
		columns = r.columns
	}
	sql = "SELECT " + columns + " FROM " + r.table.SQL()
	if len(where) > 0 {
		sql += " WHERE " + strings.Join(where, " AND ")
	}
	return sql + fmt.Sprintf(" ORDER BY %s FETCH FIRST %d ROWS WITH TIES", order, limit), args
}

// relation stays the same for as long as the table does, so that the router need not begin again with each page.
func (r *Rows) relation(fields []pgconn.FieldDescription) *pgoutput.Relation {
	rel := &pgoutput.Relation{Namespace: r.table.Schema, Name: r.table.Name}
	for i := range fields {
		f := &fields[i]
		rel.OID = f.TableOID
		rel.Columns = append(rel.Columns, pgoutput.Column{
			Name: f.Name, TypeOID: f.DataTypeOID, Modifier: f.TypeModifier,
		})
	}
	if r.rel == nil || r.rel.OID != rel.OID || !slices.Equal(r.rel.Columns, rel.Columns) {
		r.rel = rel
	}
	return r.rel
}

func (r *Rows) key(rel *pgoutput.Relation, row pgoutput.Tuple) (k Key) {
	for i := range rel.Columns {
		switch {
		case rel.Columns[i].Name == r.cfg.Columns.ID:
			k.ID = string(row[i].Data)
		case rel.Columns[i].Name == r.cfg.Columns.Timestamp && row[i].Kind == pgoutput.Text:
			text := string(row[i].Data)
			k.Timestamp = &text
		}
	}
	return k
}

// arrayLiteral is a text[] as Postgres reads it (Postgres docs 8.15.2): all elements quoted, so that none means NULL.
func arrayLiteral(values []string) string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = `"` + quote.Replace(v) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}
