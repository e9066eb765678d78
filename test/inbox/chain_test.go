package inbox_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/examples/shop"
	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/inbox/inboxtest"
	"github.com/cdc-outbox/cdc-outbox/outbox"
)

// A handler that writes an event: with repeats, and with deliveries that die, each cause has one receipt and one event.
// A cause that is handled again by hand has an event with the same id, which the table refuses and consumers know.
func TestEventsThatFollowFromEvents(t *testing.T) {
	b := newBed(t)
	ddl, err := outbox.Schema(outbox.Options{})
	require.NoError(t, err)
	b.Exec(t, ddl+shop.ReceiptsSchema)
	db := inboxtest.Wrap(b.pool)
	in, err := inbox.New(db, inbox.Options{Consumer: "receipts"})
	require.NoError(t, err)
	handle := consumer.InTx(in, consumer.JSON(shop.IssueReceipt))
	var events []consumer.Message
	for i := range 20 {
		id := fmt.Sprintf("018f4d3c-0000-7000-8000-%012d", i)
		value := fmt.Appendf(nil, `{"order": %d, "cents": 5}`, i)
		events = append(events, inboxtest.Event(id, "order_paid", "k", value))
	}
	for i := range 30 {
		db.DieNext(inboxtest.Step(1 + i%3))
	}
	require.NoError(t, inboxtest.Deliver(t.Context(), handle, inboxtest.Repeat(3, events)...))
	require.Equal(t, 20, b.count(t, "example_receipts"))
	require.Equal(t, 20, b.count(t, "outbox"))

	rows, err := b.pool.Query(t.Context(), "SELECT id::text, headers FROM outbox ORDER BY aggregate_id::int LIMIT 1")
	require.NoError(t, err)
	first, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (e struct {
		ID      string
		Headers json.RawMessage
	}, err error,
	) {
		return e, row.Scan(&e.ID, &e.Headers)
	})
	require.NoError(t, err)
	require.Equal(t, outbox.DerivedID(events[0].ID, "receipt_issued"), first.ID)
	require.JSONEq(t, fmt.Sprintf(`{"causation-id": %[1]q, "correlation-id": %[1]q}`, events[0].ID),
		string(first.Headers))

	b.Exec(t, "DELETE FROM processed_events")
	err = handle(t.Context(), events[0])
	require.ErrorContains(t, err, "23505", "the event of this cause is there")
	require.Equal(t, 20, b.count(t, "example_receipts"))
}
