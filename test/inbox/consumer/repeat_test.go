package consumer_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// Each repeat is looked for in the ledger, whose row an operator may have deleted to have the event handled again.
//
// Bug (monitor): The consumer's memory of recent ids outvoted the ledger. Cost: an event whose row was deleted, and
// that was published again, was not handled, and nothing said so.
func TestADeletedRowIsHandledAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1)
	db := testkit.Postgres(t)
	db.Exec(t, ledgerDDL(t, "processed_events"))
	pool, err := pgxpool.New(t.Context(), db.DSN)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	in, err := inbox.New(pool, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	handled := make(chan string, 10)
	c, err := consumer.New(b.options(), consumer.InTx(in, func(_ context.Context, _ pgx.Tx, m consumer.Message) error {
		handled <- m.ID
		return nil
	}))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	b.produce(t, record("k", "a"), record("k", "a"), record("k", "b"))
	require.Equal(t, "a", <-handled)
	require.Equal(t, "b", <-handled)
	b.awaitCommitted(t, 3) // the row of b is visible
	db.Exec(t, "DELETE FROM processed_events WHERE event_id = 'a'")
	b.produce(t, record("k", "a"), record("k", "b"), record("k", "c"))
	require.Equal(t, "a", <-handled)
	require.Equal(t, "c", <-handled)
	cancel()
	require.NoError(t, <-done)
}
