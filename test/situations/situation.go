package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

// situation is a state of the world that rules are judged by.
type situation struct {
	name     string
	what     string // a sentence
	length   time.Duration
	settings map[string]string // of Postgres
	args     []string          // of cdc-outbox; default: run
	env      map[string]string
	// play makes it happen. It ends with ctx, and what it returns then does not count.
	play func(ctx context.Context, s *stage) error
}

// stage is where a situation is played.
type stage struct {
	db     *postgres.Server
	broker *fakebroker.Broker
	opts   process.Options

	mu       sync.Mutex
	process  *process.Process
	billing  *billing // nil: no application handles the events
	unlisted bool     // discovery no longer lists the target
}

const database = "shop"

const table = `CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL,
	aggregate_id text NOT NULL, event_type text NOT NULL, payload jsonb, headers jsonb,
	created_at timestamptz NOT NULL DEFAULT now())`

func (s situation) header(first time.Time) string {
	return fmt.Sprintf("# %s\n# Recorded by `make situations`: a scrape every %v, from %d.%03d on, Unix time.\n",
		s.what, every, first.Unix(), first.Nanosecond()/1e6)
}

func (s situation) record(ctx context.Context, names map[string]bool) (rec *recording, err error) {
	st, err := s.open(ctx)
	defer func() { err = errors.Join(err, st.close()) }()
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithTimeout(ctx, s.length+every/2)
	defer end()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := s.play(ctx, st); ctx.Err() == nil && err != nil {
			return err
		}
		return nil
	})
	rec = &recording{names: names, series: map[string][]string{}}
	g.Go(func() error {
		st.scrapes(ctx, rec)
		return nil
	})
	return rec, g.Wait()
}

// open starts the servers and the process. The stage has to be closed also after an error.
func (s situation) open(ctx context.Context) (*stage, error) {
	st := &stage{}
	var err error
	if st.db, err = postgres.Start(ctx, postgres.Options{Settings: s.settings}); err != nil {
		return st, err
	}
	if err := st.db.CreateDatabase(ctx, database); err != nil {
		return st, err
	}
	if err := st.db.Exec(ctx, database, table); err != nil {
		return st, err
	}
	topics := map[string]int32{"order.events": 3, "order.events.DLT": 1, "cdc-outbox.dead-letter": 1}
	if st.broker, err = fakebroker.Start(fakebroker.Options{Topics: topics}); err != nil {
		return st, err
	}
	free, err := port.Free()
	if err != nil {
		return st, err
	}
	env := map[string]string{
		"CDC_OUTBOX_POSTGRES_DSN": st.db.DSN(database), "CDC_OUTBOX_KAFKA_BROKERS": st.broker.Addrs()[0],
		"CDC_OUTBOX_HTTP_LISTEN": port.Addr(free),
	}
	maps.Copy(env, s.env)
	st.opts = process.Options{Args: s.args, Env: env}
	return st, st.launch()
}

// launch starts the process, which keeps its address.
func (st *stage) launch() error {
	p, err := process.Start(st.opts)
	if err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.process != nil {
		err = st.process.Close()
	}
	st.process = p
	return err
}

// target is what Prometheus scrapes, and whether it still knows the target.
func (st *stage) target() (p *process.Process, app *billing, listed bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.process, st.billing, !st.unlisted
}

// unlist takes the target from discovery, as when its pod is deleted.
func (st *stage) unlist() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.process.Kill()
	st.unlisted = true
}

func (st *stage) scrapes(ctx context.Context, rec *recording) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p, app, listed := st.target()
		code, body, err := p.Get("/metrics")
		all := []scrape{{relayTarget, body, listed && err == nil && code == http.StatusOK, listed}}
		if app != nil {
			body, answers := app.scrape()
			all = append(all, scrape{consumerTarget, body, answers, true})
		}
		rec.add(all...)
	}
}

func (st *stage) closeBroker() {
	if st.broker != nil {
		st.broker.Close()
		st.broker = nil
	}
}

func (st *stage) close() (err error) {
	if st.process != nil {
		err = st.process.Close()
	}
	st.closeBroker()
	if st.db != nil {
		err = errors.Join(err, st.db.Close())
	}
	return err
}
