package inbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// A handler that makes a call may be idle for as long as its context allows, whatever the database's limit is.
//
// Bug (monitor): The server ended the transaction of a handler whose call took longer than
// `idle_in_transaction_session_timeout`. Cost: `forward` made the same call again and again.
func TestAHandlerMayBeIdle(t *testing.T) {
	b := newBed(t)
	b.Exec(t, "ALTER DATABASE "+pgx.Identifier{b.Name}.Sanitize()+" SET idle_in_transaction_session_timeout = '50ms'")
	pool := b.connect(t, nil)
	in, err := inbox.New(pool, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, in.Handle(ctx, inbox.Event{ID: "e"}, func(context.Context, pgx.Tx) error {
		require.Eventually(t, func() bool {
			return b.count(t, `pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'
				AND clock_timestamp() - state_change > interval '300 ms'`) == 1
		}, time.Minute, 20*time.Millisecond)
		return nil
	}))
	var after string
	require.NoError(t, pool.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&after))
	require.Equal(t, "50ms", after, "for this transaction only")
}

// A process that is frozen in a handler, or whose host is lost, keeps its claim until the handler's time is over.
//
// Bug (monitor): The claim of a frozen process was kept for as long as it was frozen. Cost: the successor, which has
// its partition, waited for that long.
func TestTheClaimOfAFrozenHandlerEnds(t *testing.T) {
	b := newBed(t)
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	entered, thaw, frozen := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		frozen <- in.Handle(ctx, inbox.Event{ID: "e"}, func(ctx context.Context, tx pgx.Tx) error {
			defer func() { <-thaw }()
			defer close(entered)
			var limit time.Duration
			if err := tx.QueryRow(ctx, "SELECT current_setting('idle_in_transaction_session_timeout')::interval").
				Scan(&limit); err != nil {
				return err
			}
			if limit <= 0 || limit > time.Minute+5*time.Second {
				return fmt.Errorf("the claim may be idle for %s", limit)
			}
			// As if that time were nearly over.
			_, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = '50ms'")
			return err
		})
	}()
	<-entered
	require.NoError(t, in.Handle(t.Context(), inbox.Event{ID: "e"}, effect("e", "successor")))
	close(thaw)
	require.ErrorIs(t, <-frozen, inbox.ErrLedger)
	require.Equal(t, 1, b.count(t, "effects"))
}
