package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	example "github.com/cdc-outbox/cdc-outbox/examples/shop"
	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

const (
	orderTopic   = "order.events" // the default template over the aggregate types below
	paymentTopic = "payment.events"

	orders = 200
	// doomed is the header of events that are going to be rolled back. Nothing that carries it may arrive.
	doomed = "doomed"
)

// shop is the application: it changes orders and writes what happened to the outbox, both in one transaction.
type shop struct {
	pool    *pgxpool.Pool
	book    *ledger
	metrics *prometheus.Registry // of billing

	transactions, committed, rolledBack atomic.Uint64
}

// writing is what the shop has done so far.
type writing struct {
	transactions uint64 // committed
	committed    uint64 // events in them
	rolledBack   uint64 // events in transactions and savepoints that were rolled back
}

// change is the payload of every event. Version counts the aggregate's events from 1, so a consumer sees what is
// missing, repeated or out of order.
type change struct {
	Order   int    `json:"order"`
	Version uint64 `json:"version"`
	Cents   int64  `json:"cents"`
	Note    string `json:"note"`
}

func openShop(ctx context.Context, server *postgres.Server, book *ledger) (*shop, error) {
	if err := server.CreateDatabase(ctx, database); err != nil {
		return nil, err
	}
	table, err := outbox.Schema(outbox.Options{})
	if err != nil {
		return nil, err
	}
	handled, err := inbox.Schema(inbox.Options{})
	if err != nil {
		return nil, err
	}
	err = server.Exec(ctx, database, table+handled+example.BillingSchema+fmt.Sprintf(`
CREATE TABLE orders (id int PRIMARY KEY, version bigint NOT NULL DEFAULT 0, payments bigint NOT NULL DEFAULT 0,
cents bigint NOT NULL DEFAULT 0);
INSERT INTO orders (id) SELECT generate_series(1, %d);`, orders))
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, server.DSN(database))
	if err != nil {
		return nil, err
	}
	return &shop{pool: pool, book: book, metrics: prometheus.NewRegistry()}, nil
}

func (s *shop) close() { s.pool.Close() }

func (s *shop) totals() writing {
	return writing{transactions: s.transactions.Load(), committed: s.committed.Load(), rolledBack: s.rolledBack.Load()}
}

// trade runs the workers until closed. A transaction that has begun is finished.
func (s *shop) trade(ctx context.Context, closed <-chan struct{}, workers, rate int) error {
	group, ctx := errgroup.WithContext(ctx)
	for range workers {
		group.Go(func() error { return s.work(ctx, closed, workers, rate) })
	}
	return group.Wait()
}

// work keeps to its share of the rate. A worker that fell behind does not catch up: the demo is not a load test.
func (s *shop) work(ctx context.Context, closed <-chan struct{}, workers, rate int) error {
	next := time.Now()
	for {
		if rate > 0 {
			next = next.Add(rand.N(2 * time.Second * time.Duration(workers) / time.Duration(rate)))
			if now := time.Now(); next.Before(now) {
				next = now
			}
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-closed:
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if err := s.transaction(ctx); err != nil {
			return fmt.Errorf("the shop's transaction: %w", err)
		}
	}
}

// transaction changes an order. Of 100, 7 are rolled back as a whole, and 3 roll back to a savepoint after
// which another event was written.
func (s *shop) transaction(ctx context.Context) error {
	tx, err := s.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	fate := rand.IntN(100)
	events, err := s.amend(ctx, tx, fate < 7)
	if err != nil {
		return err
	}
	if fate < 7 {
		s.rolledBack.Add(uint64(len(events)))
		return tx.Rollback(ctx)
	}
	if fate < 10 {
		if err := s.regret(ctx, tx); err != nil {
			return err
		}
	}
	s.book.committing(events)
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	s.transactions.Add(1)
	s.committed.Add(uint64(len(events)))
	return nil
}

// amend changes an order and, every third time, pays for it. The UPDATE locks the order's row until the end of the
// transaction, which is what makes the versions the commit order.
func (s *shop) amend(ctx context.Context, tx pgx.Tx, isDoomed bool) ([]outbox.Event, error) {
	id, paid := 1+rand.IntN(orders), rand.IntN(3) == 0
	payments := 0
	if paid {
		payments = 1
	}
	order, payment := change{Order: id, Note: "amended"}, change{Order: id, Note: "paid"}
	err := tx.QueryRow(ctx,
		`UPDATE orders SET version = version + 1, cents = cents + $2, payments = payments + $3 WHERE id = $1
RETURNING version, cents, payments`, id, rand.IntN(10_000),
		payments).Scan(&order.Version, &order.Cents, &payment.Version)
	if err != nil {
		return nil, err
	}
	payment.Cents = order.Cents
	events := []outbox.Event{event("order", "order_amended", order, isDoomed)}
	if paid {
		events = append(events, event("payment", "payment_received", payment, isDoomed))
	}
	return events, outbox.Insert(ctx, tx, events...)
}

// regret writes an event after a savepoint and rolls back to it.
func (s *shop) regret(ctx context.Context, tx pgx.Tx) error {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	e := event("order", "order_cancelled", change{Order: 1, Version: 1, Note: "regretted"}, true)
	if err := outbox.Insert(ctx, savepoint, e); err != nil {
		return err
	}
	s.rolledBack.Add(1)
	return savepoint.Rollback(ctx)
}

func event(aggregate, kind string, c change, isDoomed bool) outbox.Event {
	e := outbox.Event{
		ID: outbox.NewID(), AggregateType: aggregate, AggregateID: strconv.Itoa(c.Order), Type: kind, Payload: c,
	}
	if isDoomed {
		e.Headers = map[string]string{doomed: "true"}
	}
	return e
}

// count returns the rows of the outbox: the truth about what was committed.
func (s *shop) count(ctx context.Context) (n uint64, err error) {
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM outbox").Scan(&n)
	return n, err
}

// wal is what the slot makes the server keep.
type wal struct {
	retained    int64 // bytes from restart_lsn on: files that must stay. Postgres moves it in steps of some 15 seconds
	unconfirmed int64 // bytes from confirmed_flush_lsn on: what the connector has not confirmed
}

func (s *shop) wal(ctx context.Context) (w wal, err error) {
	err = s.pool.QueryRow(ctx,
		`SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint, pg_wal_lsn_diff(pg_current_wal_lsn(),
			confirmed_flush_lsn)::bigint
FROM pg_replication_slots WHERE slot_name = $1`, slot).Scan(&w.retained, &w.unconfirmed)
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("there is no replication slot %q", slot)
	}
	return w, err
}
