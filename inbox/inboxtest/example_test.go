package inboxtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/inbox/inboxtest"
)

// bill is the code of a service.
func bill(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
	_, err := tx.Exec(ctx, "INSERT INTO invoices (order_id, body) VALUES ($1, $2)", string(m.Key), m.Value)
	return err
}

// A test of a handler: its invoices are there once, whatever was repeated and whichever delivery died.
func ExampleDeliver() {
	testBill := func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		pool, err := pgxpool.New(ctx, "postgres://billing@127.0.0.1/billing_test")
		require.NoError(t, err)
		defer pool.Close()
		ledger, err := inbox.Schema(inbox.Options{})
		require.NoError(t, err)
		_, err = pool.Exec(ctx, ledger+"CREATE TABLE invoices (order_id text, body jsonb)")
		require.NoError(t, err)

		db := inboxtest.Wrap(pool)
		in, err := inbox.New(db, inbox.Options{Consumer: "billing"})
		require.NoError(t, err)
		db.DieNext(inboxtest.BeforeCommit, inboxtest.Survive, inboxtest.AfterCommit)
		events := []consumer.Message{
			inboxtest.Event("e1", "order_paid", "42", []byte(`{"total": 12.5}`)),
			inboxtest.Event("e2", "order_paid", "43", []byte(`{"total": 7}`)),
		}
		require.NoError(t, inboxtest.Deliver(ctx, consumer.InTx(in, bill), inboxtest.Repeat(1, events)...))

		var n int
		require.NoError(t, pool.QueryRow(ctx, "SELECT count(*) FROM invoices").Scan(&n))
		require.Equal(t, 2, n)
	}
	_ = testBill
}
