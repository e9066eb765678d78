package shop

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// BillingSchema creates the billing service's own table. inbox.Schema creates the table of the handled events. No
// constraint of the billing table prevents an event from being billed twice: the inbox prevents it.
const BillingSchema = `CREATE TABLE IF NOT EXISTS billing_lines (
    n        bigserial PRIMARY KEY,
    event_id text      NOT NULL,
    order_id bigint    NOT NULL,
    cents    bigint    NOT NULL
);`

// Billing writes one line for every event. It sets a group and topics where opts has none. While the database is down
// the consumer waits.
func Billing(pool *pgxpool.Pool, opts consumer.Options) (*consumer.Consumer, error) {
	in, err := inbox.New(pool, inbox.Options{Consumer: "billing", Metrics: opts.Metrics})
	if err != nil {
		return nil, err
	}
	if opts.Group == "" {
		opts.Group = "billing"
	}
	if opts.Topics == nil {
		opts.Topics = []string{Topic}
	}
	return consumer.New(opts, consumer.InTx(in, bill))
}

func bill(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
	var change Change
	if err := json.Unmarshal(m.Value, &change); err != nil {
		return consumer.Permanent(err) // a retry would not help, so the record becomes a dead letter
	}
	_, err := tx.Exec(ctx, "INSERT INTO billing_lines (event_id, order_id, cents) VALUES ($1, $2, $3)",
		m.ID, change.Order, change.Cents)
	return err
}
