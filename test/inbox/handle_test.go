package inbox_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

func TestTheSameEventTenTimes(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts inbox.Options) {
		b := newBed(t)
		metrics := prometheus.NewRegistry()
		opts.Metrics = inbox.NewMetrics(metrics)
		for name, handle := range b.variants(t, opts) {
			require.NoError(t, handle(t.Context(), name))
			for range 9 {
				require.ErrorIs(t, handle(t.Context(), name), inbox.ErrDuplicate)
			}
			require.Equal(t, 1, b.count(t, "effects WHERE event = '"+name+"'"))
			completed := "processed_events WHERE status = 'COMPLETED' AND completed_at IS NOT NULL"
			require.Equal(t, 1, b.count(t, completed+" AND event_id = '"+name+"'"))
		}
		require.Equal(t, 4., sample(t, metrics, deliveries, "claimed"))
		// Nine for each of the two that deliver it alone; of a batch that has it twice, all but one of twenty.
		require.Equal(t, 2*9+2*19., sample(t, metrics, deliveries, "duplicate"))
		require.Equal(t, 1, b.count(t, "processed_events WHERE source = 't/0@1'"))
	})
}

func TestConsumersShareADatabase(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts inbox.Options) {
		b := newBed(t)
		for _, consumer := range []string{"billing", "mail"} {
			opts.Consumer = consumer
			require.NoError(t, b.variants(t, opts)["pgx"](t.Context(), "e"))
			require.ErrorIs(t, b.variants(t, opts)["database/sql"](t.Context(), "e"), inbox.ErrDuplicate)
		}
		require.Equal(t, 2, b.count(t, "effects WHERE event = 'e'"))
	})
}

// A unique violation of the handler's tables is the handler's error, even where it looks like one of the ledger.
func TestOnlyTheLedgerTellsDuplicates(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts inbox.Options) {
		b := newBed(t)
		b.Exec(t, `CREATE TABLE invoices (id int PRIMARY KEY); INSERT INTO invoices VALUES (1);
CREATE SCHEMA other; CREATE TABLE other.processed_events (LIKE processed_events INCLUDING ALL);
INSERT INTO other.processed_events VALUES ('billing', 'e', 'COMPLETED');
INSERT INTO processed_events VALUES ('billing', 'x', 'COMPLETED')`)
		in, err := inbox.New(b.pool, opts)
		require.NoError(t, err)
		for _, statement := range []string{
			"INSERT INTO invoices VALUES (1)",
			"INSERT INTO other.processed_events VALUES ('billing', 'e', 'COMPLETED')",
			"INSERT INTO processed_events VALUES ('billing', 'x', 'COMPLETED')",
		} {
			err := in.Handle(t.Context(), inbox.Event{ID: "e"}, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, statement)
				return err
			})
			var pgErr *pgconn.PgError
			require.ErrorAs(t, err, &pgErr, statement)
			require.Equal(t, "23505", pgErr.Code)
			require.NotErrorIs(t, err, inbox.ErrDuplicate)
			claims := b.count(t, "processed_events WHERE event_id = 'e'")
			require.Zero(t, claims, "the claim is rolled back with the effect")
		}
		require.NoError(t, in.Handle(t.Context(), inbox.Event{ID: "e"}, effect("e", "")))
	})
}

func TestTheHandlerCannotEndTheTransaction(t *testing.T) {
	eachStrategy(t, func(t *testing.T, opts inbox.Options) {
		b := newBed(t)
		in, err := inbox.New(b.pool, opts)
		require.NoError(t, err)
		require.NoError(t, in.Handle(t.Context(), inbox.Event{ID: "a"}, func(ctx context.Context, tx pgx.Tx) error {
			require.Error(t, tx.Commit(ctx))
			require.Error(t, tx.Rollback(ctx))
			savepoint, err := tx.Begin(ctx)
			require.NoError(t, err)
			return savepoint.Rollback(ctx)
		}))
		err = in.Handle(t.Context(), inbox.Event{ID: "b"}, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "COMMIT")
			return err
		})
		require.ErrorContains(t, err, "the handler has ended the transaction itself")
		require.Error(t, in.Handle(t.Context(), inbox.Event{ID: "c"}, func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "SELECT 1/0") // and nothing said of it
			return nil
		}))
		require.Zero(t, b.count(t, "processed_events WHERE event_id = 'c'"))
		if opts.Strategy == inbox.Advisory {
			err := in.Handle(t.Context(), inbox.Event{ID: "b"}, effect("b", ""))
			require.ErrorIs(t, err, inbox.ErrUnfinished, "an operator has to decide")
		}
	})
}

func TestAPanicRollsBack(t *testing.T) {
	b := newBed(t)
	in, err := inbox.New(b.pool, inbox.Options{Consumer: "billing"})
	require.NoError(t, err)
	require.PanicsWithValue(t, "boom", func() {
		_ = in.Handle(t.Context(), inbox.Event{ID: "e"}, func(context.Context, pgx.Tx) error { panic("boom") })
	})
	require.NoError(t, in.Handle(t.Context(), inbox.Event{ID: "e"}, effect("e", "")))
}
