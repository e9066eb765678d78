package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/scratch"
)

const (
	slot       = "cdc_outbox" // the connector's default
	database   = "shop"
	partitions = 4

	readyLimit = 60 * time.Second // for the connector to stream
	drainLimit = 60 * time.Second // for what was committed to arrive, once the writers have stopped
	stopLimit  = 20 * time.Second // for the connector to end after SIGTERM
)

// play sets the stage, lets the shop write until stop or the duration ends, waits until everything has arrived, and
// returns the counts. Everything it started has ended when it returns. ctx ends it at once.
func play(ctx, stop context.Context, o options, v *view) (r result, err error) {
	dir, err := scratch.NewDir("demo")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, dir.Remove()) }()
	binary, server, err := prepare(ctx, stop, o, v, dir)
	if server != nil {
		defer func() { err = errors.Join(err, server.Close()) }()
	}
	if err != nil {
		return r, err
	}

	broker, err := fakebroker.Start(fakebroker.Options{Topics: map[string]int32{
		orderTopic: partitions, paymentTopic: partitions, orderTopic + ".DLT": 1, paymentTopic + ".DLT": 1,
	}})
	if err != nil {
		return r, err
	}
	defer broker.Close()

	book := newLedger()
	s, err := openShop(ctx, server, book)
	if err != nil {
		return r, err
	}
	defer s.close()
	c, err := startRelay(binary, dir, server.DSN(database), broker.Addrs())
	if err != nil {
		return r, err
	}
	defer c.kill()
	if err := c.awaitReady(ctx, stop, readyLimit); err != nil {
		return r, err
	}
	v.step(fmt.Sprintf("PostgreSQL %s on %s -> cdc-outbox (pid %d) -> Kafka stand-in on %s", server.Version(),
		server.Addr(), c.pid(), broker.Addrs()[0]))
	return perform(ctx, stop, o, v, &cast{shop: s, relay: c, book: book, broker: broker})
}

// prepare builds the binary and starts Postgres, which takes longest when they were never built or fetched before. The
// server is returned also with an error, so that it gets closed.
func prepare(ctx, stop context.Context, o options, v *view,
	dir *scratch.Dir,
) (binary string, server *postgres.Server, err error) {
	group, gctx := errgroup.WithContext(ctx)
	gctx, cancel := context.WithCancel(gctx)
	defer cancel()
	defer context.AfterFunc(stop, cancel)() // a signal while preparing ends the preparation
	group.Go(func() (err error) {
		binary, err = buildRelay(gctx, o.binary, dir, v)
		return err
	})
	group.Go(func() (err error) {
		server, err = startPostgres(gctx, o.postgres, v)
		return err
	})
	err = group.Wait()
	if stop.Err() != nil {
		err = errors.New("interrupted while preparing")
	}
	return binary, server, err
}

// cast is who takes part once the stage is set.
type cast struct {
	shop   *shop
	relay  *relay
	book   *ledger
	broker *fakebroker.Broker
}

// perform runs writers, consumer and view, drains, stops the connector and takes the counts.
func perform(ctx, stop context.Context, o options, v *view, p *cast) (result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.relay.watch(gctx) })
	group.Go(func() error { return consume(gctx, p.broker.Addrs(), p.book) })
	group.Go(func() error { return p.shop.bill(gctx, p.broker.Addrs()) })
	group.Go(func() error { return p.show(gctx, v) })
	var r result
	group.Go(func() error {
		defer cancel() // the others serve this one
		if err := p.write(gctx, stop, o, v); err != nil {
			return err
		}
		v.note("The writers have stopped; waiting until everything has arrived.")
		r = p.stopAndCount(gctx)
		return gctx.Err()
	})
	if err := group.Wait(); err != nil {
		return r, err
	}
	return r, nil
}

// write lets the shop trade until its time is up or stop ends.
func (p *cast) write(ctx, stop context.Context, o options, v *view) error {
	trading, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(stop, cancel)()
	if o.duration > 0 {
		timer := time.AfterFunc(o.duration, cancel)
		defer timer.Stop()
	}
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.shop.trade(gctx, trading.Done(), o.workers, o.rate) })
	if o.crash && o.duration > 0 {
		group.Go(func() error { return p.crash(trading, o.duration*3/4, v) })
	}
	return group.Wait()
}

// crash kills the connector after a while, unless the writing ends before.
func (p *cast) crash(trading context.Context, after time.Duration, v *view) error {
	pause(trading, after)
	if trading.Err() != nil {
		return nil //nolint:nilerr // the writing has ended, which is how a demonstration ends
	}
	p.book.crashing()
	v.note("kill -9 of the connector, which is started again; what was not confirmed comes twice.")
	return p.relay.crash()
}

// stopAndCount waits until the counts agree or the limit is over, then stops the connector as an operator would, and
// takes the final counts.
func (p *cast) stopAndCount(ctx context.Context) result {
	limit, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	for limit.Err() == nil && !p.arrived(limit) {
		pause(limit, 50*time.Millisecond)
	}
	// A repeat would come after what it repeats: give it the time to show.
	pause(ctx, 300*time.Millisecond)
	r := result{relay: p.relay.status(ctx)}
	r.exit = p.relay.stop(stopLimit)
	pause(ctx, 200*time.Millisecond)
	r.writing = p.shop.totals()
	r.reading = p.book.totals()
	r.crashes = p.relay.crashes()
	records, err := p.broker.Count(ctx, orderTopic, paymentTopic)
	r.records = uint64(max(records, 0))
	r.billing = p.shop.billed(ctx)
	r.inTable, r.slotErr = p.shop.count(ctx)
	r.slotErr = errors.Join(err, r.slotErr)
	if r.slotErr == nil {
		r.wal, r.slotErr = p.shop.wal(ctx)
	}
	return r
}

func (p *cast) arrived(ctx context.Context) bool {
	committed := p.shop.totals().committed
	return p.book.totals().consumed >= committed && p.shop.billed(ctx).lines >= committed &&
		(p.relay.crashes() > 0 || p.relay.status(ctx).Counts.Published >= committed)
}

// show feeds the view.
func (p *cast) show(ctx context.Context, v *view) error {
	tick := time.NewTicker(v.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w, err := p.shop.wal(ctx)
			if err != nil {
				continue // shown again at the next tick; the end is judged by settle
			}
			v.draw(frame{
				writing: p.shop.totals(), relay: p.relay.status(ctx), reading: p.book.totals(), recent: p.book.recent(),
				wal: w,
			})
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
