// Command billing is an example of a service that handles events exactly once. It writes a billing line for each order.
//
//	make topic TOPIC=order.events; make topic TOPIC=order.events.DLT
//	CDC_OUTBOX_POSTGRES_DSN=postgres://… CDC_OUTBOX_KAFKA_BROKERS=127.0.0.1:9092 go run ./examples/billing
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cdc-outbox/cdc-outbox/examples/shop"
	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("CDC_OUTBOX_POSTGRES_DSN"), os.Getenv("CDC_OUTBOX_KAFKA_BROKERS")); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dsn, brokers string) error {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	ledger, err := inbox.Schema(inbox.Options{})
	if err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, ledger+shop.BillingSchema); err != nil {
		return err
	}
	c, err := shop.Billing(pool, consumer.Options{Brokers: strings.Split(brokers, ",")})
	if err != nil {
		return err
	}
	log.Printf("waiting for events of %s; the lines are in the table billing_lines", shop.Topic)
	return c.Run(ctx) // returns after a signal, when the running handlers are done
}
