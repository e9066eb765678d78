package shop

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// BillingSchema is the billing service's own table; that of the handled events is inbox.Schema. Nothing in it keeps an event from being billed twice: that is
// the inbox's part.
const BillingSchema = `CREATE TABLE IF NOT EXISTS billing_lines (n bigserial PRIMARY KEY, event_id text NOT NULL, order_id bigint NOT NULL, cents bigint NOT NULL);`

// Billing writes a line for every event, once. What isn't set in opts is: the group, the topic, and that a database that is down is waited for.
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
	opts.Healthy = in.Ping
	return consumer.New(opts, consumer.InTx(in, bill))
}

func bill(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
	var change Change
	if err := json.Unmarshal(m.Value, &change); err != nil {
		return consumer.Permanent(err) // trying again would not help: to the dead letters with it
	}
	_, err := tx.Exec(ctx, "INSERT INTO billing_lines (event_id, order_id, cents) VALUES ($1, $2, $3)", m.ID, change.Order, change.Cents)
	return err
}
