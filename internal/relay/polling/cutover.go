package polling

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// Barrier keeps every relay that polls these tables from claiming anything: it holds all lanes, in a session. When the
// session ends, whatever ends it, they go on, unless they were retired. Release it.
type Barrier struct {
	conn  *pgx.Conn
	setup Setup
}

// RaiseBarrier waits until each lane's holder has marked its rows in flight, and takes the lane.
func RaiseBarrier(ctx context.Context, dsn string, s Setup, wait time.Duration) (*Barrier, error) {
	conn, err := s.connect(ctx, dsn, "cdc-outbox migrate polling")
	if err != nil {
		return nil, err
	}
	b := &Barrier{conn: conn, setup: s}
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for _, t := range s.Tables {
		st, err := lookupTable(ctx, conn, t, &s)
		if err == nil {
			_, ok := st.column(s.Columns.Published)
			if !ok {
				err = &fault.Error{
					Kind: fault.Operator, Object: "table " + t.String(),
					Err: fmt.Errorf("it has no column %s, so it is not polled by cdc-outbox",
						quoted(s.Columns.Published)),
					Next: "Name the column with --published-column; for another relay say with --unpublished which " +
						"rows it has left.",
				}
			}
		}
		for lane := 0; lane < Lanes && err == nil; lane++ {
			_, err = conn.PgConn().Exec(limited, fmt.Sprintf("SELECT pg_catalog.pg_advisory_lock(%d, %d)", lockClass(t),
				lane)).ReadAll()
			if err != nil && limited.Err() != nil && ctx.Err() == nil {
				err = &fault.Error{
					Kind: fault.Operator, Object: "table " + t.String(),
					Err: fmt.Errorf("lane %d was not released within %s, as Kafka has not acknowledged what is in "+
						"flight of it", lane, wait),
					Next:     "See what the relay waits for, or stop it.",
					Commands: []string{"cdc-outbox status"},
				}
			}
		}
		if err != nil {
			b.Release()
			return nil, postgres.QueryFault("table "+t.String(), err)
		}
	}
	return b, nil
}

// Release ends the session and with it the barrier.
func (b *Barrier) Release() { postgres.CloseConn(b.conn) }

// Retire ends polling for good: without the column by its name no relay finds a row, and each stops with an error. It
// is done in the session of the barrier, so it fails if the barrier has fallen.
func (b *Barrier) Retire(ctx context.Context, to string, wait time.Duration) (done []setup.Step, err error) {
	deadline := time.Now().Add(wait)
	for _, t := range b.setup.Tables {
		step := setup.Step{
			SQL: fmt.Sprintf("ALTER TABLE %s RENAME COLUMN %s TO %s;", t.SQL(), quoted(b.setup.Columns.Published),
				quoted(to)) +
				fmt.Sprintf("\nCOMMENT ON COLUMN %s.%s IS %s;", t.SQL(), quoted(to),
					identifier.QuoteLiteral(endedMark+"; source: wal publishes its rows.")),
			Why: "No relay that polls finds a row any more; what it has published stays on record.",
		}
		for {
			// One message is one transaction: the column never has its new name without the comment. Bounded, because
			// every writer waits after the session that waits for this lock.
			_, err = b.conn.PgConn().Exec(ctx, "SET lock_timeout = '1s'; "+step.SQL).ReadAll()
			if sqlstate.Of(err) != sqlstate.LockNotAvailable || time.Now().After(deadline) {
				break
			}
			select {
			case <-ctx.Done():
				return done, ctx.Err()
			case <-time.After(500 * time.Millisecond):
			}
		}
		if err != nil {
			f := postgres.QueryFault("table "+t.String(), err)
			var known *fault.Error
			if errors.As(f, &known) {
				known.Kind = fault.Operator
				known.Next = "Stop every relay that polls before this command ends, or what it publishes from now " +
					"on is published again from the log; then run the command again, which goes on from here."
			}
			return done, f
		}
		done = append(done, step)
	}
	return done, nil
}

// Retired reports whether an earlier run got to the end.
func Retired(ctx context.Context, dsn string, s Setup, to string) (bool, error) {
	c := &connection{cfg: &Config{DSN: func() (string, error) { return dsn, nil }}, made: func(bool) {}}
	defer c.close()
	retired := len(s.Tables) > 0
	for _, t := range s.Tables {
		n := 0
		err := c.run(ctx, "table "+t.String(),
			fmt.Sprintf(`SELECT count(*) FROM pg_catalog.pg_attribute WHERE attrelid = to_regclass(%s)
				AND attname = %s AND NOT attisdropped`,
				identifier.QuoteLiteral(t.SQL()), identifier.QuoteLiteral(to)),
			func(_ []pgconn.FieldDescription, v [][]byte) (err error) {
				n, err = strconv.Atoi(string(v[0]))
				return err
			})
		if err != nil {
			return false, err
		}
		retired = retired && n == 1
	}
	return retired, nil
}
