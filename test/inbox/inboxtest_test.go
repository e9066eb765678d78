package inbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/inbox/inboxtest"
)

// What a user's test sees of handlers, right and wrong: of each that has its effect more than once, or not at all,
// inboxtest shows it.
func TestInboxTestShowsWhatAHandlerGetsWrong(t *testing.T) {
	const write = "INSERT INTO effects VALUES ($1, 'n')"
	for name, test := range map[string]struct {
		handle func(b *bed) func(ctx context.Context, tx pgx.Tx, m consumer.Message) error
		right  bool
	}{
		"right": {func(*bed) func(context.Context, pgx.Tx, consumer.Message) error {
			return func(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
				_, err := tx.Exec(ctx, write, m.ID)
				return err
			}
		}, true},
		"writes outside of the transaction": {func(b *bed) func(context.Context, pgx.Tx, consumer.Message) error {
			return func(ctx context.Context, _ pgx.Tx, m consumer.Message) error {
				_, err := b.pool.Exec(ctx, write, m.ID)
				return err
			}
		}, false},
		"remembers what it has done": {func(*bed) func(context.Context, pgx.Tx, consumer.Message) error {
			done := map[string]bool{}
			return func(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
				if done[m.ID] {
					return nil
				}
				done[m.ID] = true
				_, err := tx.Exec(ctx, write, m.ID)
				return err
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, strategy := range []inbox.Strategy{inbox.Insert, inbox.Advisory} {
				b := newBed(t)
				var events []consumer.Message
				for i := range 20 {
					events = append(events, inboxtest.Event(fmt.Sprint("e", i), "x", "k", nil))
				}
				db := inboxtest.Wrap(b.pool)
				in, err := inbox.New(db, inbox.Options{Consumer: "c", Strategy: strategy})
				require.NoError(t, err)
				rng := rand.New(rand.NewPCG(1, 2))
				for range 30 {
					db.DieNext(inboxtest.Step(1 + rng.IntN(3)))
				}
				err = inboxtest.Deliver(t.Context(), consumer.InTx(in, test.handle(b)), inboxtest.Repeat(3, events)...)
				require.NoError(t, err)
				require.Greater(t, db.Died(), 5)
				once := b.count(t, "effects") == 20 &&
					b.count(t, "(SELECT event FROM effects GROUP BY event HAVING count(*) = 1) e") == 20
				require.Equal(t, test.right, once)
				require.Equal(t, 20, b.count(t, "processed_events WHERE status = 'COMPLETED'"))
			}
		})
	}
}

func TestInboxTestOfABatch(t *testing.T) {
	b := newBed(t)
	var events []consumer.Message
	for i := range 50 {
		events = append(events, inboxtest.Event(fmt.Sprint("e", i), "x", "k", nil))
	}
	db := inboxtest.Wrap(b.pool)
	in, err := inbox.New(db, inbox.Options{Consumer: "c"})
	require.NoError(t, err)
	for range 6 {
		db.DieNext(inboxtest.BeforeCommit, inboxtest.Survive, inboxtest.AfterCommit)
	}
	handle := consumer.BatchInTx(in, func(ctx context.Context, tx pgx.Tx, ms []consumer.Message) error {
		for _, m := range ms {
			if _, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1, 'n')", m.ID); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, inboxtest.DeliverBatch(t.Context(), handle, 7, inboxtest.Repeat(4, events)...))
	require.Equal(t, 50, b.count(t, "effects"))
	require.Equal(t, 50, b.count(t, "(SELECT DISTINCT event FROM effects) e"))
	require.Positive(t, db.Died())
}
