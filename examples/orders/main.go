// Command orders is an example of a service that writes events. It places an order each second and writes the order's
// event in the same transaction.
//
//	CDC_OUTBOX_POSTGRES_DSN=postgres://… go run ./examples/orders
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cdc-outbox/cdc-outbox/examples/shop"
	"github.com/cdc-outbox/cdc-outbox/outbox"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Getenv("CDC_OUTBOX_POSTGRES_DSN"), time.Second); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dsn string, every time.Duration) error {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	table, err := outbox.Schema(outbox.Options{})
	if err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, table+shop.OrdersSchema); err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		order, err := shop.Place(ctx, pool, 100+rand.Int64N(10_000))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Printf("order %d placed\n", order)
	}
}
