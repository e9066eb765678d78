package inbox_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// assassin ends the backend before or after one statement of a transaction, once.
type assassin struct {
	t      *testing.T
	b      *bed
	step   string       // beginning of the statement
	pass   atomic.Int32 // how many of these are spared
	after  bool
	struck atomic.Bool
}

type statementKey struct{}

func (a *assassin) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !a.after {
		a.strike(conn, data.SQL)
	}
	return context.WithValue(ctx, statementKey{}, data.SQL)
}

func (a *assassin) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryEndData) {
	if a.after {
		a.strike(conn, ctx.Value(statementKey{}).(string))
	}
}

func (a *assassin) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	step := data.Batch.QueuedQueries[0].SQL
	if step == "begin" { // it is sent with the first statement of its transaction
		step = data.Batch.QueuedQueries[1].SQL
	}
	return a.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: step})
}

func (a *assassin) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (a *assassin) TraceBatchEnd(ctx context.Context, conn *pgx.Conn, _ pgx.TraceBatchEndData) {
	a.TraceQueryEnd(ctx, conn, pgx.TraceQueryEndData{})
}

func (a *assassin) strike(conn *pgx.Conn, statement string) {
	if !strings.HasPrefix(statement, a.step) || a.pass.Add(-1) >= 0 || !a.struck.CompareAndSwap(false, true) {
		return
	}
	var gone bool
	row := a.b.pool.QueryRow(context.Background(), "SELECT pg_terminate_backend($1, 60000)", conn.PgConn().PID())
	if err := row.Scan(&gone); err != nil || !gone {
		a.t.Errorf("the backend is still there: %v", err)
	}
}

// Whatever step the backend dies at: either nothing was written or everything, and after the next delivery there is
// exactly one effect.
func TestCrashAtEachStep(t *testing.T) {
	const commit = "commit"
	steps := map[inbox.Strategy][]string{
		inbox.Insert: {`INSERT INTO "processed_events"`, "INSERT INTO effects", commit},
		inbox.Advisory: {
			"SELECT pg_catalog.pg_try_advisory_xact_lock", `INSERT INTO "processed_events"`, "INSERT INTO effects",
			`UPDATE "processed_events"`, commit,
		},
	}
	eachStrategy(t, func(t *testing.T, opts inbox.Options) {
		b := newBed(t)
		for _, step := range steps[opts.Strategy] {
			for _, after := range []bool{false, true} {
				name := map[bool]string{false: "before ", true: "after "}[after] + step
				t.Run(name, func(t *testing.T) {
					_, err := b.pool.Exec(t.Context(), "TRUNCATE effects, processed_events")
					require.NoError(t, err)
					a := &assassin{t: t, b: b, step: step, after: after}
					in, err := inbox.New(b.connect(t, a), opts)
					require.NoError(t, err)
					err = in.Handle(t.Context(), inbox.Event{ID: "e"}, effect("e", ""))
					require.True(t, a.struck.Load(), "no such step")

					written := step == commit && after
					require.Equal(t, written, err == nil, "%v", err)
					require.Equal(t, written, b.count(t, "effects") == 1)
					require.Equal(t, written, b.count(t, "processed_events") == 1)

					again, err := inbox.New(b.pool, opts)
					require.NoError(t, err)
					err = again.Handle(t.Context(), inbox.Event{ID: "e"}, effect("e", ""))
					if written {
						require.ErrorIs(t, err, inbox.ErrDuplicate)
					} else {
						require.NoError(t, err)
					}
					require.Equal(t, 1, b.count(t, "effects"))
					require.Equal(t, 1, b.count(t, "processed_events WHERE status = 'COMPLETED'"))
				})
			}
		}
	})
}

// The same for a batch, of which one event was handled before: afterwards each of the three has its effect once.
func TestCrashAtEachStepOfABatch(t *testing.T) {
	b := newBed(t)
	for _, step := range []string{
		`INSERT INTO "processed_events"`, "SELECT CASE WHEN pg_catalog.bool_and", "INSERT INTO effects", "commit",
	} {
		for _, after := range []bool{false, true} {
			t.Run(map[bool]string{false: "before ", true: "after "}[after]+step, func(t *testing.T) {
				_, err := b.pool.Exec(t.Context(), "TRUNCATE effects, processed_events")
				require.NoError(t, err)
				again, err := inbox.New(b.pool, inbox.Options{Consumer: "billing"})
				require.NoError(t, err)
				require.NoError(t, again.Handle(t.Context(), inbox.Event{ID: "b"}, effect("b", "")))
				a := &assassin{t: t, b: b, step: step, after: after}
				in, err := inbox.New(b.connect(t, a), inbox.Options{Consumer: "billing"})
				require.NoError(t, err)

				err = in.HandleBatch(t.Context(), abc, effects(abc))
				require.True(t, a.struck.Load(), "no such step")
				written := step == "commit" && after
				require.Equal(t, written, err == nil, "%v", err)
				effected := 1
				if written {
					effected = 3
				}
				require.Equal(t, effected, b.count(t, "effects"))
				require.Equal(t, effected, b.count(t, "processed_events"))

				err = again.HandleBatch(t.Context(), abc, effects(abc))
				if written {
					require.ErrorIs(t, err, inbox.ErrDuplicate)
				} else {
					require.NoError(t, err)
				}
				require.Equal(t, 3, b.count(t, "effects"))
				require.Equal(t, 3, b.count(t, "(SELECT DISTINCT event FROM effects) e"))
				require.Equal(t, 3, b.count(t, "processed_events WHERE status = 'COMPLETED'"))
			})
		}
	}
}

// deafPool commits, and the answer is lost.
type deafPool struct{ inbox.DB }

type deafTx struct{ pgx.Tx }

var errDeaf = errors.New("connection reset by peer")

func (d deafPool) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	results := d.DB.SendBatch(ctx, b)
	return begun{results, deafTx{results.Tx()}}
}

// begun are the results of a batch that has begun a transaction of a test.
type begun struct {
	pgx.BatchResults
	tx pgx.Tx
}

func (b begun) Tx() pgx.Tx { return b.tx }

func (d deafTx) Commit(ctx context.Context) error {
	return errors.Join(d.Tx.Commit(ctx), errDeaf)
}

func TestTheAnswerToTheCommitIsLost(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts inbox.Options) {
		b := newBed(t)
		in, err := inbox.New(deafPool{b.pool}, opts)
		require.NoError(t, err)
		require.ErrorIs(t, in.Handle(t.Context(), inbox.Event{ID: "e"}, effect("e", "")), errDeaf)
		require.ErrorIs(t, in.Handle(t.Context(), inbox.Event{ID: "e"}, effect("e", "")), inbox.ErrDuplicate)
		require.Equal(t, 1, b.count(t, "effects"))
	})
}
