package publisher_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/publisher"
)

// A service with its own publisher: it writes an event with each order, and publishes the events itself.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dsn := os.Getenv("DATABASE_URL")
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	p, err := publisher.New(publisher.Options{
		DSN: dsn, Brokers: []string{"kafka-1:9092", "kafka-2:9092"}, Registerer: prometheus.DefaultRegisterer,
		Settings: map[string]string{
			"kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.sasl.username": "orders",
			"kafka.sasl.password": "@/run/secrets/kafka",
		},
	})
	if err != nil {
		panic(err)
	}
	place := func(ctx context.Context, order string) error {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", order); err != nil {
				return err
			}
			return outbox.Insert(ctx, tx, outbox.Event{AggregateType: "order", AggregateID: order, Type: "placed"})
		})
		if err == nil {
			p.Kick()
		}
		return err
	}
	http.HandleFunc("POST /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		if err := place(r.Context(), r.PathValue("id")); err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: 5 * time.Second}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.Run(ctx) })
	g.Go(func() error {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return server.Shutdown(context.WithoutCancel(ctx))
	})
	if err := g.Wait(); err != nil {
		panic(err)
	}
}
