package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

func TestTheSameEventTenTimes(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts Options) {
		b := newBed(t)
		opts.Metrics = NewMetrics(prometheus.NewRegistry())
		for name, handle := range b.variants(t, opts) {
			require.NoError(t, handle(t.Context(), name))
			for range 9 {
				require.ErrorIs(t, handle(t.Context(), name), ErrDuplicate)
			}
			require.Equal(t, 1, b.count(t, "effects WHERE event = '"+name+"'"))
			require.Equal(t, 1, b.count(t, "processed_events WHERE status = 'COMPLETED' AND completed_at IS NOT NULL AND event_id = '"+name+"'"))
		}
		require.Equal(t, 2., testutil.ToFloat64(opts.Metrics.deliveries.WithLabelValues("billing", "claimed")))
		require.Equal(t, 18., testutil.ToFloat64(opts.Metrics.deliveries.WithLabelValues("billing", "duplicate")))
		require.Equal(t, 1, b.count(t, "processed_events WHERE source = 't/0@1'"))
	})
}

func TestTenDeliveriesAtATime(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts Options) {
		b := newBed(t)
		for name, handle := range b.variants(t, opts) {
			var claimed, duplicate atomic.Int32
			var group errgroup.Group
			for range 10 {
				group.Go(func() error {
					for { // a contended delivery comes again
						switch err := handle(t.Context(), name); {
						case err == nil:
							claimed.Add(1)
							return nil
						case errors.Is(err, ErrDuplicate):
							duplicate.Add(1)
							return nil
						case !errors.Is(err, ErrContended) || opts.Strategy == Insert:
							return err
						}
					}
				})
			}
			require.NoError(t, group.Wait())
			require.EqualValues(t, 1, claimed.Load())
			require.EqualValues(t, 9, duplicate.Load())
			require.Equal(t, 1, b.count(t, "effects WHERE event = '"+name+"'"))
			require.Equal(t, 1, b.count(t, "processed_events WHERE event_id = '"+name+"'"))
		}
	})
}

func TestConsumersShareADatabase(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts Options) {
		b := newBed(t)
		for _, consumer := range []string{"billing", "mail"} {
			opts.Consumer = consumer
			require.NoError(t, b.variants(t, opts)["pgx"](t.Context(), "e"))
			require.ErrorIs(t, b.variants(t, opts)["database/sql"](t.Context(), "e"), ErrDuplicate)
		}
		require.Equal(t, 2, b.count(t, "effects WHERE event = 'e'"))
	})
}

// meet starts a delivery of "e" that stays in its handler until release is called with the handler's result.
func meet(t *testing.T, in *Inbox) (release func(error), result <-chan error) {
	inside, end, done := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	go func() {
		done <- in.Handle(context.Background(), Event{ID: "e"}, func(ctx context.Context, tx pgx.Tx) error {
			if err := effect("e", "first")(ctx, tx); err != nil {
				return err
			}
			close(inside)
			return <-end
		})
	}()
	<-inside
	return func(err error) { end <- err }, done
}

func TestInsertWaitsForTheOther(t *testing.T) {
	for name, failure := range map[string]error{"which commits": nil, "which fails": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			in, err := New(b.pool, Options{Consumer: "billing"})
			require.NoError(t, err)
			release, first := meet(t, in)
			second := make(chan error, 1)
			go func() { second <- in.Handle(context.Background(), Event{ID: "e"}, effect("e", "second")) }()
			require.Eventually(t, func() bool {
				return b.count(t, "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
			}, 20*time.Second, 10*time.Millisecond, "the second waits in Postgres")
			release(failure)
			require.ErrorIs(t, <-first, failure)
			if failure == nil {
				require.ErrorIs(t, <-second, ErrDuplicate)
			} else {
				require.NoError(t, <-second)
			}
			require.Equal(t, 1, b.count(t, "effects"))
		})
	}
}

// Whoever holds the row may hold it for long, a process that is frozen. That is not the event's failure.
func TestInsertWaitsNoLongerThanItsContext(t *testing.T) {
	b := newBed(t)
	release, first := meet(t, must(New(b.pool, Options{Consumer: "billing"})))
	for name, handle := range b.variants(t, Options{Consumer: "billing"}) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		require.ErrorIs(t, handle(ctx, "e"), ErrContended, name)
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	err := b.variants(t, Options{Consumer: "billing"})["pgx"](ctx, "e")
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrContended)
	release(nil)
	require.NoError(t, <-first)
}

func must(in *Inbox, err error) *Inbox {
	if err != nil {
		panic(err)
	}
	return in
}

func TestAdvisoryDoesNotWait(t *testing.T) {
	b := newBed(t)
	in, err := New(b.pool, Options{Consumer: "billing", Strategy: Advisory})
	require.NoError(t, err)
	release, first := meet(t, in)
	require.ErrorIs(t, in.Handle(t.Context(), Event{ID: "e"}, effect("e", "second")), ErrContended)
	require.NoError(t, in.Handle(t.Context(), Event{ID: "f"}, effect("f", "another")), "other events aren't held up")
	release(nil)
	require.NoError(t, <-first)
	require.ErrorIs(t, in.Handle(t.Context(), Event{ID: "e"}, effect("e", "second")), ErrDuplicate)
	require.Equal(t, 2, b.count(t, "effects"))
}

// A unique violation of the handler's tables is the handler's error, even where it looks like one of the ledger.
func TestOnlyTheLedgerTellsDuplicates(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts Options) {
		b := newBed(t)
		b.Exec(t, `CREATE TABLE invoices (id int PRIMARY KEY); INSERT INTO invoices VALUES (1);
CREATE SCHEMA other; CREATE TABLE other.processed_events (LIKE processed_events INCLUDING ALL); INSERT INTO other.processed_events VALUES ('billing', 'e', 'COMPLETED');
INSERT INTO processed_events VALUES ('billing', 'x', 'COMPLETED')`)
		in, err := New(b.pool, opts)
		require.NoError(t, err)
		for _, statement := range []string{
			"INSERT INTO invoices VALUES (1)",
			"INSERT INTO other.processed_events VALUES ('billing', 'e', 'COMPLETED')",
			"INSERT INTO processed_events VALUES ('billing', 'x', 'COMPLETED')",
		} {
			err := in.Handle(t.Context(), Event{ID: "e"}, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, statement)
				return err
			})
			var pgErr *pgconn.PgError
			require.ErrorAs(t, err, &pgErr, statement)
			require.Equal(t, "23505", pgErr.Code)
			require.NotErrorIs(t, err, ErrDuplicate)
			require.Zero(t, b.count(t, "processed_events WHERE event_id = 'e'"), "the claim is gone with the effect")
		}
		require.NoError(t, in.Handle(t.Context(), Event{ID: "e"}, effect("e", "")))
	})
}

func TestSerializationFailuresAreRepeated(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts Options) {
		b := newBed(t)
		b.Exec(t, "CREATE TABLE account (cents int); INSERT INTO account VALUES (0)")
		opts.Isolation = sql.LevelRepeatableRead
		in, err := New(b.pool, opts)
		require.NoError(t, err)
		calls := 0
		add := func(ctx context.Context, tx pgx.Tx) error {
			if calls++; calls == 1 { // somebody else changes the row after our snapshot was taken
				b.Exec(t, "UPDATE account SET cents = cents + 1")
			}
			_, err := tx.Exec(ctx, "UPDATE account SET cents = cents + 10")
			return err
		}
		require.NoError(t, in.Handle(t.Context(), Event{ID: "e"}, add))
		require.Equal(t, 2, calls)
		require.Equal(t, 1, b.count(t, "account WHERE cents = 11"))
	})
}

// With a snapshot from before the other's commit ON CONFLICT can't say "duplicate": Postgres answers 40001, and the repeat finds out.
func TestDuplicateBehindASnapshot(t *testing.T) {
	b := newBed(t)
	opts := Options{Consumer: "billing", Isolation: sql.LevelSerializable}
	in, err := New(b.pool, opts)
	require.NoError(t, err)
	release, first := meet(t, in)
	second := make(chan error, 1)
	go func() { second <- b.variants(t, opts)["database/sql"](context.Background(), "e") }()
	require.Eventually(t, func() bool {
		return b.count(t, "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	}, 20*time.Second, 10*time.Millisecond)
	release(nil)
	require.NoError(t, <-first)
	require.ErrorIs(t, <-second, ErrDuplicate)
}

func TestDeadlocksAreRepeated(t *testing.T) {
	b := newBed(t)
	b.Exec(t, "CREATE TABLE account (id int PRIMARY KEY, cents int); INSERT INTO account VALUES (1, 0), (2, 0); ALTER DATABASE "+b.Name+" SET deadlock_timeout = '10ms'")
	in, err := New(b.connect(t, nil), Options{Consumer: "billing"})
	require.NoError(t, err)
	var group errgroup.Group
	var calls atomic.Int32
	meeting := make(chan struct{})
	for i := range 2 {
		group.Go(func() error {
			return in.Handle(t.Context(), Event{ID: fmt.Sprint(i)}, func(ctx context.Context, tx pgx.Tx) error {
				for n, id := range []int{1 + i, 2 - i} {
					if _, err := tx.Exec(ctx, "UPDATE account SET cents = cents + 1 WHERE id = $1", id); err != nil {
						return err
					}
					if call := calls.Load(); n == 0 && call < 2 { // both hold their first row before either asks for its second
						if calls.Add(1) == 2 {
							close(meeting)
						}
						<-meeting
					}
				}
				return nil
			})
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, 2, b.count(t, "account WHERE cents = 2"))
}

func TestTheBudgetOfRepeatsEnds(t *testing.T) {
	b := newBed(t)
	in, err := New(b.pool, Options{Consumer: "billing", Attempts: 3})
	require.NoError(t, err)
	calls := 0
	err = in.Handle(t.Context(), Event{ID: "e"}, func(context.Context, pgx.Tx) error {
		calls++
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: "40P01"})
	})
	require.Error(t, err)
	require.Equal(t, 3, calls)
}

func TestTheHandlerCannotEndTheTransaction(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts Options) {
		b := newBed(t)
		in, err := New(b.pool, opts)
		require.NoError(t, err)
		require.NoError(t, in.Handle(t.Context(), Event{ID: "a"}, func(ctx context.Context, tx pgx.Tx) error {
			require.Error(t, tx.Commit(ctx))
			require.Error(t, tx.Rollback(ctx))
			savepoint, err := tx.Begin(ctx)
			require.NoError(t, err)
			return savepoint.Rollback(ctx)
		}))
		require.ErrorIs(t, in.Handle(t.Context(), Event{ID: "b"}, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "COMMIT")
			return err
		}), errEnded)
		require.Error(t, in.Handle(t.Context(), Event{ID: "c"}, func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "SELECT 1/0") // and nothing said of it
			return nil
		}))
		require.Zero(t, b.count(t, "processed_events WHERE event_id = 'c'"))
		if opts.Strategy == Advisory {
			require.ErrorIs(t, in.Handle(t.Context(), Event{ID: "b"}, effect("b", "")), ErrUnfinished, "a person has to look")
		}
	})
}

func TestAPanicRollsBack(t *testing.T) {
	b := newBed(t)
	in, err := New(b.pool, Options{Consumer: "billing"})
	require.NoError(t, err)
	require.PanicsWithValue(t, "boom", func() {
		_ = in.Handle(t.Context(), Event{ID: "e"}, func(context.Context, pgx.Tx) error { panic("boom") })
	})
	require.NoError(t, in.Handle(t.Context(), Event{ID: "e"}, effect("e", "")))
}
