package consumer_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// A service that handles each event once, the events of one aggregate in order, until it receives SIGTERM.
func ExampleNew() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, "postgres://billing@127.0.0.1/billing")
	if err != nil {
		log.Fatal(err)
	}
	in, err := inbox.New(pool, inbox.Options{Consumer: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	c, err := consumer.New(consumer.Options{
		Brokers: []string{"127.0.0.1:9092"}, Group: "billing", Topics: []string{"order.events"},
	}, consumer.InTx(in, func(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
		_, err := tx.Exec(ctx, "INSERT INTO invoices (order_id, data) VALUES ($1, $2)", string(m.Key), m.Value)
		return err
	}))
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// A handler for each type of event, with its payload decoded, over the topics of all aggregate types.
func ExampleByType() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, "postgres://billing@127.0.0.1/billing")
	if err != nil {
		log.Fatal(err)
	}
	in, err := inbox.New(pool, inbox.Options{Consumer: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	type order struct{ Total int }
	paid := consumer.JSON(func(ctx context.Context, tx pgx.Tx, m consumer.Message, o order) error {
		_, err := tx.Exec(ctx, "INSERT INTO invoices (order_id, total) VALUES ($1, $2)", string(m.Key), o.Total)
		return err
	})
	c, err := consumer.New(consumer.Options{
		Brokers: []string{"127.0.0.1:9092"}, Group: "billing", Pattern: `.*\.events`,
	}, consumer.ByType(map[string]consumer.Handler{"OrderPaid": consumer.InTx(in, paid)}, consumer.Ignore))
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// The same as New for a handler of batches: several times faster while the group is behind.
func ExampleNewBatch() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, "postgres://billing@127.0.0.1/billing")
	if err != nil {
		log.Fatal(err)
	}
	in, err := inbox.New(pool, inbox.Options{Consumer: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	c, err := consumer.NewBatch(consumer.Options{
		Brokers: []string{"127.0.0.1:9092"}, Group: "billing", Topics: []string{"order.events"},
	}, consumer.BatchInTx(in, func(ctx context.Context, tx pgx.Tx, ms []consumer.Message) error {
		var b pgx.Batch
		for _, m := range ms {
			b.Queue("INSERT INTO invoices (order_id, data) VALUES ($1, $2)", string(m.Key), m.Value)
		}
		return tx.SendBatch(ctx, &b).Close()
	}))
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
