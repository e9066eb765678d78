package polling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// connection is a worker's, opened again whenever one is needed and the last is closed. For one goroutine.
type connection struct {
	cfg  *Config
	name string           // of the session; empty: one that only looks
	made func(again bool) // called for each connection made
	conn *pgx.Conn
	once bool // there was one before

	patience time.Duration // see answered; 0: before the first statement
	verified bool          // the relay's start has been through with the same connection string
}

// open connects if need be.
func (c *connection) open(ctx context.Context) error {
	if c.conn != nil && !c.conn.IsClosed() {
		return nil
	}
	dsn, err := c.cfg.DSN()
	if err != nil {
		return &fault.Error{Kind: fault.Retry, Object: "postgres.dsn", Err: err}
	}
	o := c.cfg.setup().options(cmp.Or(c.name, "cdc-outbox look"))
	o.Rows = true
	c.conn, err = postgres.Open(ctx, dsn, o)
	if err != nil {
		c.conn = nil
		return c.passing(err)
	}
	postgres.LimitRows(c.conn, c.cfg.LongRow)
	c.made(c.once)
	c.once = true
	return nil
}

// passing takes a refused login, and a connection string that cannot be read, for a password or a file that is being
// replaced, if the start was verified. Before that they are mistakes.
func (c *connection) passing(err error) error {
	var known *fault.Error
	if !c.verified || !errors.As(err, &known) {
		return err
	}
	code := sqlstate.Of(err)
	if known.Kind != fault.Config && !strings.HasPrefix(code, "28") && code != "3D000" {
		return err
	}
	again := *known
	again.Kind = fault.Retry
	return &again
}

func (c *connection) close() {
	if c.conn != nil {
		postgres.CloseConn(c.conn)
		c.conn = nil
	}
}

// A firewall that forgets a connection drops its packets without a word, and TCP takes a quarter of an hour to give up.
// So a statement has firstPatience to be answered. The server may be that slow as well: after each time without an
// answer the statement has twice as long.
const (
	firstPatience = 15 * time.Second
	mostPatience  = 10 * time.Minute
)

// answered notes how long a message took, and whether its time was over.
func (c *connection) answered(took time.Duration, tooLong bool) {
	times := time.Duration(4)
	if tooLong {
		times = 2
	}
	c.patience = min(max(firstPatience, times*took), mostPatience)
}

// run sends statements in one message and gives the rows of the last one that has any to take. After an error the
// connection is closed: the transaction's state is then not a question.
func (c *connection) run(ctx context.Context, object, sql string,
	take func(fields []pgconn.FieldDescription, values [][]byte) error,
) error {
	if err := c.open(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, cmp.Or(c.patience, firstPatience))
	defer cancel()
	sent := time.Now()
	results := c.conn.PgConn().Exec(limited, sql)
	var taken error
	for taken == nil && results.NextResult() {
		rows := results.ResultReader()
		for taken == nil && take != nil && rows.NextRow() {
			taken = take(rows.FieldDescriptions(), rows.Values())
		}
	}
	err := results.Close()
	tooLong := err != nil && limited.Err() != nil && ctx.Err() == nil
	c.answered(time.Since(sent), tooLong)
	if err == nil && taken == nil {
		return nil
	}
	c.close()
	switch {
	case taken != nil:
		return taken
	case tooLong:
		return &fault.Error{
			Kind: fault.Retry, Object: object, Err: fmt.Errorf("no answer within %s", human.Duration(time.Since(sent))),
			Next: "See whether packets reach the server, and what the session waits for there (pg_stat_activity).",
		}
	}
	return classified(object, err)
}

// classified lets a timeout, a cancelled statement or a deadlock be tried again, and leaves the rest to an operator.
func classified(object string, err error) error {
	f := postgres.QueryFault(object, err)
	var known *fault.Error
	if errors.As(f, &known) {
		switch sqlstate.Of(err) {
		case sqlstate.UndefinedTable, sqlstate.UndefinedColumn, sqlstate.NotPermitted, sqlstate.UndefinedSchema:
			known.With(fault.Do("See what is missing, then add it.", "cdc-outbox check", "cdc-outbox setup"))
		}
	}
	return f
}

// claim locks up to limit lanes that have rows. more says that there were others.
func (c *connection) claim(ctx context.Context, s *statements, candidates []int, limit int) (got []int, more bool,
	err error,
) {
	asked := 0
	err = c.run(ctx, s.object(), s.claim(candidates, limit), func(_ []pgconn.FieldDescription, v [][]byte) error {
		asked++
		return locked(&got, v)
	})
	return got, asked == limit || len(got) < asked, err
}

// renew marks rows, ends the transaction, and claims the lanes again in another one. Another session has got lanes in
// between only if the transaction had ended before.
func (c *connection) renew(ctx context.Context, s *statements, marks string, want []int) (got []int, err error) {
	sql := s.again(want)
	if c.conn != nil && !c.conn.IsClosed() {
		sql = s.keep(want) + "; COMMIT; " + sql + "; " + s.letGo(want)
		if marks != "" {
			sql = marks + "; " + sql
		}
	} else if marks != "" {
		sql = s.begin + marks + "; COMMIT; " + sql
	}
	err = c.run(ctx, s.object(), sql, func(_ []pgconn.FieldDescription, v [][]byte) error { return locked(&got, v) })
	return got, err
}

// finish marks rows and ends the transaction, in a new one if the claim's has ended.
func (c *connection) finish(ctx context.Context, s *statements, marks string) error {
	sql := marks + "; COMMIT"
	switch gone := c.conn == nil || c.conn.IsClosed(); {
	case gone && marks == "":
		return nil
	case gone:
		sql = s.begin + sql
	case marks == "":
		sql = "COMMIT"
	}
	return c.run(ctx, s.object(), sql, nil)
}

func locked(got *[]int, values [][]byte) error {
	n, err := strconv.Atoi(string(values[0]))
	if err == nil && string(values[1]) == "t" {
		*got = append(*got, n)
	}
	return err
}

func (s *statements) object() string { return "table " + s.table.String() }

// read fills the batch with the lanes' first rows, up to about so many bytes.
func (c *connection) read(ctx context.Context, s *statements, claimed []int, perLane, bytes int,
	known *pgoutput.Relation, b *batch,
) error {
	sequence, cut := -1, false
	return c.run(ctx, s.object(), s.read(claimed, perLane), func(fields []pgconn.FieldDescription, v [][]byte) error {
		if b.relation == nil {
			if b.relation, sequence = relationOf(s.table, fields[ownColumns:], known,
				s.cfg.Columns.Sequence); sequence < 0 {
				return &fault.Error{
					Kind: fault.Operator, Object: s.object(),
					Err:      errors.New("its rows have no column " + s.cfg.Columns.Sequence),
					Next:     "See what is missing.",
					Commands: []string{"cdc-outbox check"},
				}
			}
		}
		if cut = cut || len(b.rows) > 0 && len(b.arena) >= bytes; cut {
			return nil // the lane's later rows must not be taken either
		}
		lane, err := strconv.Atoi(string(v[0]))
		if err != nil {
			return err
		}
		seq, err := strconv.ParseInt(string(v[ownColumns+sequence]), 10, 64)
		if err != nil {
			return &fault.Error{
				Kind: fault.Operator, Object: s.object(),
				Err: errors.New("a row has no number in " + s.cfg.Columns.Sequence), Next: "See what is missing.",
				Commands: []string{"cdc-outbox check"},
			}
		}
		b.add(batchRow{lane: lane, seq: seq, part: v[1], tid: v[2]}, v[ownColumns:])
		return nil
	})
}

// relationOf stays the same for as long as the table does, so that the router need not begin again with each batch.
func relationOf(t identifier.Table, fields []pgconn.FieldDescription, known *pgoutput.Relation,
	sequence string,
) (rel *pgoutput.Relation, at int) {
	rel, at = &pgoutput.Relation{Namespace: t.Schema, Name: t.Name}, -1
	for i := range fields {
		f := &fields[i]
		rel.OID = f.TableOID
		if f.Name == sequence {
			at = i
		}
		rel.Columns = append(rel.Columns, pgoutput.Column{
			Name: f.Name, TypeOID: f.DataTypeOID,
			Modifier: f.TypeModifier,
		})
	}
	if known != nil && known.OID == rel.OID && slices.Equal(known.Columns, rel.Columns) {
		return known, at
	}
	return rel, at
}
