package outboxtest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/outbox/outboxtest"
)

// pay is the code of a service.
func pay(ctx context.Context, tx pgx.Tx, order string) error {
	if _, err := tx.Exec(ctx, "UPDATE orders SET state = 'paid' WHERE id = $1", order); err != nil {
		return err
	}
	return outbox.Insert(ctx, tx, outbox.Event{AggregateType: "order", AggregateID: order, Type: "order_paid"})
}

// A test of code that writes events: nothing is committed, and nothing has to be cleaned up.
func ExampleEvents() {
	testPay := func(t *testing.T) {
		conn, err := pgx.Connect(t.Context(), "postgres://shop@127.0.0.1/shop")
		require.NoError(t, err)
		defer func() { _ = conn.Close(context.Background()) }()
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(context.Background()) }()

		require.NoError(t, pay(t.Context(), tx, "42"))

		events, err := outboxtest.Events(t.Context(), tx, outbox.Options{})
		require.NoError(t, err)
		require.Len(t, events, 1)
		require.Equal(t, "order_paid", events[0].Type)
		require.Equal(t, "42", events[0].AggregateID)
	}
	_ = testPay
}
