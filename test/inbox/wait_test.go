package inbox_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// Wait returns once the transaction with the last of the effects has committed.
func TestWait(t *testing.T) {
	b := newBed(t)
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	std, err := inbox.NewSQL(b.sql, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	for name, wait := range map[string]func(ctx context.Context, ids ...string) error{
		"pgx": in.Wait, "database/sql": std.Wait,
	} {
		t.Run(name, func(t *testing.T) {
			first, second := name+`"first\`, name+" second"
			require.NoError(t, wait(t.Context()), "nothing to wait for")
			require.ErrorIs(t, wait(t.Context(), ""), inbox.ErrEventID)
			nothing := func(context.Context, pgx.Tx) error { return nil }
			require.NoError(t, in.Handle(t.Context(), inbox.Event{ID: first}, nothing))
			require.NoError(t, wait(t.Context(), first, first))
			b.Exec(t, "INSERT INTO processed_events (consumer, event_id, status) VALUES ('billing', '"+name+
				"', 'PROCESSING'), ('mail', '"+second+"', 'COMPLETED')")
			require.Eventually(t, func() bool { // in between two statements
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				err := wait(ctx, name, first, second)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				return strings.Contains(err.Error(), "billing has handled 1 of 3 events")
			}, time.Minute, time.Millisecond)

			waited := make(chan error, 1)
			require.NoError(t, in.Handle(t.Context(), inbox.Event{ID: second}, func(context.Context, pgx.Tx) error {
				go func() { waited <- wait(t.Context(), second, first) }()
				select {
				case err := <-waited:
					return err
				case <-time.After(50 * time.Millisecond): //waits:ok time in which it must not return
					return nil
				}
			}))
			require.NoError(t, <-waited)
		})
	}
	b.Exec(t, "DROP TABLE processed_events")
	require.ErrorIs(t, in.Wait(t.Context(), "any"), inbox.ErrLedger)
}
