// Package shop is the code of the two example services, so that `make demo` can run the same code: orders writes
// events, billing handles them.
package shop

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cdc-outbox/cdc-outbox/outbox"
)

// Topic is the topic that the relay's default template chooses for events of the aggregate type order.
const Topic = "order.events"

// OrdersSchema creates the order service's own table. outbox.Schema creates the table of the events.
const OrdersSchema = `CREATE TABLE IF NOT EXISTS example_orders (id bigserial PRIMARY KEY, cents bigint NOT NULL);`

// Change is the payload of the events.
type Change struct {
	Order int64  `json:"order"`
	Cents int64  `json:"cents"`
	Note  string `json:"note"`
}

// Place stores an order and its event, both or neither.
func Place(ctx context.Context, pool *pgxpool.Pool, cents int64) (order int64, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		row := tx.QueryRow(ctx, "INSERT INTO example_orders (cents) VALUES ($1) RETURNING id", cents)
		if err := row.Scan(&order); err != nil {
			return err
		}
		return outbox.Insert(ctx, tx, outbox.Event{
			AggregateType: "order", AggregateID: strconv.FormatInt(order, 10), Type: "order_placed",
			Payload: Change{Order: order, Cents: cents, Note: "placed"},
		})
	})
	return order, err
}
