package inbox_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

func TestTenDeliveriesAtATime(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts inbox.Options) {
		b := newBed(t)
		for name, handle := range b.variants(t, opts) {
			var claimed, duplicate atomic.Int32
			var group errgroup.Group
			for range 10 {
				group.Go(func() error {
					for { // a contended delivery is sent again
						switch err := handle(t.Context(), name); {
						case err == nil:
							claimed.Add(1)
							return nil
						case errors.Is(err, inbox.ErrDuplicate):
							duplicate.Add(1)
							return nil
						case !errors.Is(err, inbox.ErrContended) || opts.Strategy == inbox.Insert:
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

// meet starts a delivery of "e" that stays in its handler until release is called with the handler's result.
func meet(in *inbox.Inbox) (release func(error), result <-chan error) {
	inside, end, done := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	go func() {
		done <- in.Handle(context.Background(), inbox.Event{ID: "e"}, func(ctx context.Context, tx pgx.Tx) error {
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
			in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing"})
			require.NoError(t, err)
			release, first := meet(in)
			second := make(chan error, 1)
			go func() { second <- in.Handle(context.Background(), inbox.Event{ID: "e"}, effect("e", "second")) }()
			require.Eventually(t, func() bool {
				return b.count(t, waitingSessions) == 1
			}, time.Minute, 10*time.Millisecond, "the second waits in Postgres")
			release(failure)
			require.ErrorIs(t, <-first, failure)
			if failure == nil {
				require.ErrorIs(t, <-second, inbox.ErrDuplicate)
			} else {
				require.NoError(t, <-second)
			}
			require.Equal(t, 1, b.count(t, "effects"))
		})
	}
}

// The process that holds the row may hold it for long, when it is frozen. That is not the event's failure.
func TestInsertWaitsNoLongerThanItsContext(t *testing.T) {
	b := newBed(t)
	release, first := meet(must(inbox.New(b.pool, inbox.Options{Consumer: "billing"})))
	for name, handle := range b.variants(t, inbox.Options{Consumer: "billing"}) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // enough to get to the wait
		require.ErrorIs(t, handle(ctx, "e"), inbox.ErrContended, name)
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	err := b.variants(t, inbox.Options{Consumer: "billing"})["pgx"](ctx, "e")
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, inbox.ErrContended)
	release(nil)
	require.NoError(t, <-first)
}

func must(in *inbox.Inbox, err error) *inbox.Inbox {
	if err != nil {
		panic(err)
	}
	return in
}

func TestAdvisoryDoesNotWait(t *testing.T) {
	b := newBed(t)
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing", Strategy: inbox.Advisory})
	require.NoError(t, err)
	release, first := meet(in)
	require.ErrorIs(t, in.Handle(t.Context(), inbox.Event{ID: "e"}, effect("e", "second")), inbox.ErrContended)
	err = in.Handle(t.Context(), inbox.Event{ID: "f"}, effect("f", "another"))
	require.NoError(t, err, "other events are not delayed")
	release(nil)
	require.NoError(t, <-first)
	require.ErrorIs(t, in.Handle(t.Context(), inbox.Event{ID: "e"}, effect("e", "second")), inbox.ErrDuplicate)
	require.Equal(t, 2, b.count(t, "effects"))
}
