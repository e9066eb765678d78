package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// batchSize is how many rows are asked for at a time. They are not held in memory: who takes them slowly stops the
// server.
const batchSize = 1000

// Reader reads the rows that were in the outbox when the slot was created, and remembers which of them are published.
// Only the holder of the slot may use a Reader: nothing but the slot keeps two processes from publishing the same rows.
// For one goroutine. Close it.
type Reader struct {
	conn      *pgx.Conn
	objects   postgres.Objects
	list      string
	types     []string // of the id columns
	relations []*pgoutput.Relation
	left      int64
	settles   *Settlement // by publishing the last row
}

// Open returns nil where there is nothing to publish, or nothing left.
func Open(ctx context.Context, dsn string, o postgres.Objects) (*Reader, error) {
	if List(o).Name == "" {
		return nil, nil
	}
	conn, err := postgres.Open(ctx, dsn, postgres.ConnectOptions{Settings: session.TextSettings(), Rows: true})
	if err != nil {
		return nil, err
	}
	s := &Reader{conn: conn, objects: o, list: List(o).SQL(), relations: make([]*pgoutput.Relation, len(o.Tables))}
	some, err := s.prepareList(ctx)
	if err != nil || !some {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Reader) prepareList(ctx context.Context) (some bool, err error) {
	info, err := LookupList(ctx, s.conn, List(s.objects))
	if err != nil {
		return false, s.fault(err)
	}
	if !info.Exists {
		return false, nil
	}
	if info.Unfinished {
		return false, &fault.Error{
			Kind: fault.Operator, Object: "table " + List(s.objects).String(),
			Err: errors.New("a setup was interrupted before it had listed the rows that are in the outbox"),
			Next: "Run `cdc-outbox setup`. If the error remains, and nothing has been published from this slot yet, " +
				"re-create the slot.",
			Commands: []string{"cdc-outbox teardown", "cdc-outbox setup"},
		}
	}
	s.settles = info.Settles
	for _, t := range s.objects.Tables {
		info, err := postgres.LookupTable(ctx, s.conn, t)
		if err != nil {
			return false, s.fault(err)
		}
		s.types = append(s.types, info.CastType(s.objects.Columns.ID))
	}
	if err := s.conn.QueryRow(ctx, "SELECT count(*) FROM "+s.list).Scan(&s.left); err != nil {
		return false, s.fault(err)
	}
	if s.left == 0 {
		return false, s.Finish(ctx)
	}
	return true, nil
}

// Left is how many rows were left when the list was opened.
func (s *Reader) Left() int64 { return s.left }

// Batch hands over the next rows after the number after, in order. A row lives until take returns, whose error ends the
// batch. last is the number up to which the batch goes, which is 0 when there is no row left; rows that were deleted
// meanwhile are missing from it.
func (s *Reader) Batch(ctx context.Context, after int64,
	take func(n int64, rel *pgoutput.Relation, row pgoutput.Tuple) error,
) (last int64, err error) {
	var source int
	err = s.conn.QueryRow(ctx, fmt.Sprintf(`SELECT max(n), source FROM (SELECT n, source FROM %[1]s WHERE n > $1
		AND source = (SELECT source FROM %[1]s WHERE n > $1 ORDER BY n LIMIT 1) ORDER BY n LIMIT %[2]d) b
			GROUP BY source`, s.list, batchSize), after).Scan(&last, &source)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, s.fault(err)
	}
	if source < 0 || source >= len(s.objects.Tables) {
		return 0, &fault.Error{
			Kind: fault.Operator, Object: "postgres.tables",
			Err:  errors.New("a table was taken out of it before its rows were published"),
			Next: "Put it back, at its place in the list.",
		}
	}
	table, id := s.objects.Tables[source], identifier.Quote(s.objects.Columns.ID)
	// By the simple protocol, in which values are texts.
	results := s.conn.PgConn().Exec(ctx,
		fmt.Sprintf("SELECT l.n, o.* FROM %s l JOIN %s o ON o.%s = l.id::%s WHERE l.n > %d AND l.n <= %d ORDER BY l.n",
			s.list, table.SQL(), id, s.types[source], after, last))
	var taken error
	for taken == nil && results.NextResult() {
		rows := results.ResultReader()
		var rel *pgoutput.Relation
		var tuple pgoutput.Tuple
		for taken == nil && rows.NextRow() {
			if rel == nil {
				rel = s.relation(source, rows.FieldDescriptions())
				tuple = make(pgoutput.Tuple, len(rel.Columns))
			}
			n, err := strconv.ParseInt(string(rows.Values()[0]), 10, 64)
			if err != nil {
				return 0, s.fault(err)
			}
			for i, v := range rows.Values()[1:] {
				tuple[i] = pgoutput.Value{Kind: pgoutput.Null}
				if v != nil {
					tuple[i] = pgoutput.Value{Kind: pgoutput.Text, Data: v}
				}
			}
			taken = take(n, rel, tuple)
		}
	}
	err = results.Close()
	if taken != nil {
		return 0, taken
	}
	if err != nil {
		return 0, s.fault(err)
	}
	return last, nil
}

// relation stays the same for as long as the table does, so that the router keeps its plan between batches.
func (s *Reader) relation(source int, fields []pgconn.FieldDescription) *pgoutput.Relation {
	rel := &pgoutput.Relation{Namespace: s.objects.Tables[source].Schema, Name: s.objects.Tables[source].Name}
	for _, f := range fields[1:] {
		rel.OID = f.TableOID
		rel.Columns = append(rel.Columns, pgoutput.Column{
			Name: f.Name, TypeOID: f.DataTypeOID, Modifier: f.TypeModifier,
		})
	}
	if was := s.relations[source]; was != nil && was.OID == rel.OID && slices.Equal(was.Columns, rel.Columns) {
		return was
	}
	s.relations[source] = rel
	return rel
}

// Done remembers that all rows up to a number are published.
func (s *Reader) Done(ctx context.Context, last int64) error {
	if _, err := s.conn.Exec(ctx, "DELETE FROM "+s.list+" WHERE n <= $1", last); err != nil {
		return s.fault(err)
	}
	return nil
}

// Finish drops the list, and settles the gaps that it was made for in the same transaction. A role without the right to
// drop it leaves an empty list, which means the same.
func (s *Reader) Finish(ctx context.Context) error {
	if s.settles != nil {
		return s.settle(ctx)
	}
	if _, err := s.conn.Exec(ctx, "DROP TABLE "+s.list); err != nil && sqlstate.Of(err) != sqlstate.NotPermitted &&
		sqlstate.Of(err) != sqlstate.UndefinedTable {
		return s.fault(err)
	}
	return nil
}

// settle is for a list that this role has made.
func (s *Reader) settle(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		err := gap.Of(s.objects).Settle(ctx, tx.Conn(), s.settles.Gaps, s.settles.Missing, s.settles.Missing)
		if err == nil {
			_, err = tx.Exec(ctx, "DROP TABLE "+s.list)
		}
		return err
	})
	if err != nil {
		return s.fault(err)
	}
	return nil
}

// LimitRows bounds a row, see postgres.LimitRows.
func (s *Reader) LimitRows(bytes int64) { postgres.LimitRows(s.conn, bytes) }

// Close ends the connection.
func (s *Reader) Close() { postgres.CloseConn(s.conn) }

func (s *Reader) fault(err error) error { return postgres.QueryFault("snapshot of the outbox", err) }
