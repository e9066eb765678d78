// Package shop is what the two example services share, so that `make demo` can run the same code: orders writes events, billing handles them.
package shop

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cdc-outbox/cdc-outbox/outbox"
)

// Topic is where the relay's default template puts events of the aggregate type order.
const Topic = "order.events"

// OrdersSchema is the order service's own table; that of the events is outbox.Schema.
const OrdersSchema = `CREATE TABLE IF NOT EXISTS example_orders (id bigserial PRIMARY KEY, cents bigint NOT NULL);`

// Change is the payload of the events.
type Change struct {
	Order int64  `json:"order"`
	Cents int64  `json:"cents"`
	Note  string `json:"note"`
}

// Place stores an order and tells of it, both or neither.
func Place(ctx context.Context, pool *pgxpool.Pool, cents int64) (order int64, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, "INSERT INTO example_orders (cents) VALUES ($1) RETURNING id", cents).Scan(&order); err != nil {
			return err
		}
		return outbox.Insert(ctx, tx, outbox.Event{
			AggregateType: "order", AggregateID: strconv.FormatInt(order, 10), Type: "order_placed",
			Payload: Change{Order: order, Cents: cents, Note: "placed"},
		})
	})
	return order, err
}
