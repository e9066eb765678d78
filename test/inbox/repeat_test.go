package inbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

func TestSerializationFailuresAreRepeated(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts inbox.Options) {
		b := newBed(t)
		b.Exec(t, "CREATE TABLE account (cents int); INSERT INTO account VALUES (0)")
		opts.Isolation = sql.LevelRepeatableRead
		in, err := inbox.New(b.pool, opts)
		require.NoError(t, err)
		calls := 0
		add := func(ctx context.Context, tx pgx.Tx) error {
			if calls++; calls == 1 { // another session changes the row after our snapshot was taken
				b.Exec(t, "UPDATE account SET cents = cents + 1")
			}
			_, err := tx.Exec(ctx, "UPDATE account SET cents = cents + 10")
			return err
		}
		require.NoError(t, in.Handle(t.Context(), inbox.Event{ID: "e"}, add))
		require.Equal(t, 2, calls)
		require.Equal(t, 1, b.count(t, "account WHERE cents = 11"))
	})
}

// With a snapshot from before the other's commit ON CONFLICT cannot report a duplicate: Postgres answers 40001, and the
// repeat finds out.
func TestDuplicateBehindASnapshot(t *testing.T) {
	b := newBed(t)
	opts := inbox.Options{Consumer: "billing", Isolation: sql.LevelSerializable}
	in, err := inbox.New(b.pool, opts)
	require.NoError(t, err)
	release, first := meet(in)
	second := make(chan error, 1)
	go func() { second <- b.variants(t, opts)["database/sql"](context.Background(), "e") }()
	require.Eventually(t, func() bool {
		return b.count(t, waitingSessions) == 1
	}, time.Minute, 10*time.Millisecond)
	release(nil)
	require.NoError(t, <-first)
	require.ErrorIs(t, <-second, inbox.ErrDuplicate)
}

func TestDeadlocksAreRepeated(t *testing.T) {
	b := newBed(t)
	b.Exec(t, "CREATE TABLE account (id int PRIMARY KEY, cents int); INSERT INTO account VALUES (1, 0), (2, 0);"+
		"ALTER DATABASE "+b.Name+" SET deadlock_timeout = '10ms'")
	in, err := inbox.New(b.connect(t, nil), inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	var group errgroup.Group
	var calls atomic.Int32
	meeting := make(chan struct{})
	for i := range 2 {
		group.Go(func() error {
			return in.Handle(t.Context(), inbox.Event{ID: fmt.Sprint(i)}, func(ctx context.Context, tx pgx.Tx) error {
				for n, id := range []int{1 + i, 2 - i} {
					if _, err := tx.Exec(ctx, "UPDATE account SET cents = cents + 1 WHERE id = $1", id); err != nil {
						return err
					}
					// Both hold their first row before either asks for its second.
					if call := calls.Load(); n == 0 && call < 2 {
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
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing", Attempts: 3})
	require.NoError(t, err)
	calls := 0
	err = in.Handle(t.Context(), inbox.Event{ID: "e"}, func(context.Context, pgx.Tx) error {
		calls++
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: "40P01"})
	})
	require.Error(t, err)
	require.Equal(t, 3, calls)
}
