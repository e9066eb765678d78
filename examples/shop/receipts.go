package shop

import (
	"cmp"
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/outbox"
)

// ReceiptsSchema creates the receipt service's own table. It also needs inbox.Schema and outbox.Schema.
const ReceiptsSchema = `CREATE TABLE IF NOT EXISTS example_receipts (order_id bigint NOT NULL, cents bigint NOT NULL);`

// IssueReceipt is a link of a chain: one transaction has the claim of the event, the receipt, and the event that
// follows. So the receipt is written once, and its event published, or neither, however often the cause is delivered.
//
//	consumer.InTx(in, consumer.JSON(shop.IssueReceipt))
func IssueReceipt(ctx context.Context, tx pgx.Tx, m consumer.Message, order Change) error {
	_, err := tx.Exec(ctx, "INSERT INTO example_receipts VALUES ($1, $2)", order.Order, order.Cents)
	if err != nil {
		return err
	}
	return outbox.Insert(ctx, tx, outbox.Event{
		ID:            outbox.DerivedID(m.ID, "receipt_issued"),
		AggregateType: "receipt", AggregateID: strconv.FormatInt(order.Order, 10), Type: "receipt_issued",
		Payload: order,
		Headers: map[string]string{
			"causation-id":   m.ID,
			"correlation-id": cmp.Or(string(m.Header("correlation-id")), m.ID), // the first event of the chain
		},
	})
}
