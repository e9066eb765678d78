package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/outbox"
)

type OrderPaid struct {
	Order int     `json:"order"`
	Total float64 `json:"total"`
}

// The order and its event are one transaction: both are committed, or neither is.
func ExampleInsert() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, "postgres://shop@127.0.0.1/shop") // or a *pgxpool.Pool
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE orders SET state = 'paid' WHERE id = $1", 42); err != nil {
			return err
		}
		return outbox.Insert(ctx, tx, outbox.Event{
			AggregateType: "order", AggregateID: "42", Type: "order_paid", Payload: OrderPaid{Order: 42, Total: 12.50},
		})
	})
	if err != nil {
		log.Print(err) // neither the order nor the event was written
	}
}

// An invalid event is refused before anything is sent, so the transaction can go on.
func ExampleInsert_invalid() {
	var tx pgx.Tx // an open transaction
	event := outbox.Event{AggregateType: "order/eu", AggregateID: "42", Type: "order_paid"}
	err := outbox.Insert(context.Background(), tx, event)
	var invalid *outbox.EventError
	fmt.Println(errors.As(err, &invalid), invalid.Field)
	fmt.Println(err)
	// Output:
	// true AggregateType
	// outbox: event 0: AggregateType: U+002F is not allowed in a topic's name, which consists of [a-zA-Z0-9._-]
}

// The same with database/sql and any Postgres driver, here github.com/jackc/pgx/v5/stdlib.
func ExampleInsertSQL() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://shop@127.0.0.1/shop")
	if err != nil {
		log.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	if _, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'paid' WHERE id = $1", 42); err != nil {
		log.Fatal(err)
	}
	err = outbox.InsertSQL(ctx, tx, outbox.Event{
		AggregateType: "order", AggregateID: "42", Type: "order_paid", Payload: OrderPaid{Order: 42, Total: 12.50},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
}

// A batch sends the application's statement and the event in one round trip.
func ExampleOutbox_Queue() {
	ctx := context.Background()
	box, err := outbox.New(outbox.Options{})
	if err != nil {
		log.Fatal(err)
	}
	var batch pgx.Batch
	batch.Queue("UPDATE orders SET state = 'paid' WHERE id = $1", 42)
	event := outbox.Event{AggregateType: "order", AggregateID: "42", Type: "order_paid"}
	if err := box.Queue(ctx, &batch, event); err != nil {
		log.Fatal(err)
	}
	fmt.Println(batch.Len(), "statements; send them with the transaction's SendBatch")
	// Output: 2 statements; send them with the transaction's SendBatch
}

// A table partitioned by day loses old events by DROP TABLE. A scheduled job creates the partitions in advance.
func ExamplePartitions() {
	from := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	ddl, err := outbox.Partitions(outbox.Options{Partitioned: true}, from, 2)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(strings.ReplaceAll(ddl, " FOR VALUES", "\n    FOR VALUES"))
	// Output:
	// CREATE TABLE IF NOT EXISTS "outbox_20261121" PARTITION OF "outbox"
	//     FOR VALUES FROM ('2026-11-21 00:00:00+00') TO ('2026-11-22 00:00:00+00');
	// CREATE TABLE IF NOT EXISTS "outbox_20261122" PARTITION OF "outbox"
	//     FOR VALUES FROM ('2026-11-22 00:00:00+00') TO ('2026-11-23 00:00:00+00');
}

// A consumer reads the value of a record whose event had a Version.
func ExampleEnvelope() {
	value := []byte(`{"eventId": "018f4d3c-0000-7000-8000-000000000001", "eventType": "order_paid", "eventVersion": 2,
		"aggregateType": "order", "aggregateId": "42", "occurredAt": "2026-11-21T08:17:00Z",
		"data": {"order": 42, "total": 12.5}}`)
	var e outbox.Envelope[OrderPaid]
	if err := json.Unmarshal(value, &e); err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.EventType, e.EventVersion, e.Data.Total)
	// Output: order_paid 2 12.5
}

// A test waits until the relay has published what the code under test has committed.
func ExampleWait() {
	var conn *pgx.Conn // to the primary; or a pgxpool.Pool
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := outbox.Wait(ctx, conn, "orders"); err != nil { // the slot
		log.Print(err)
	}
}
