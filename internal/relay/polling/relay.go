package polling

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/badrow"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/offsets"
)

// source is one outbox table.
type source struct {
	*statements
	lanes lanes

	locks  lockedLanes
	locked atomic.Pointer[fault.Wait] // lanes that wait for another program's lock; nil: none

	mu      sync.Mutex
	halted  map[int]*halt          // by lane
	decided map[int]relay.Decision // about the row at which the lane is halted
}

// Relay is the running relay. Make one with New, run it once.
type Relay struct {
	cfg      Config
	log      *zap.Logger
	producer sink.Producer
	window   *offsets.Window
	sources  []*source
	workers  []*worker

	stopping chan struct{} // closed when a graceful stop is asked for
	wake     chan struct{} // capacity 1: there may be rows
	scout    chan struct{} // capacity 1: the worker that holds its token looks on a clock
	pause    time.Duration // the scout's
	again    time.Duration // lookAgain

	over atomic.Pointer[context.CancelCauseFunc] // ends the workers with the session with Kafka

	heard     atomic.Int64 // when Postgres last answered a worker, Unix nanoseconds; 0 before the first time
	found     atomic.Bool  // there was work since the scout looked
	listening atomic.Bool
	latest    atomic.Pointer[relay.Backlog]
	paused    atomic.Pointer[pause] // changed under mu

	mu      sync.Mutex
	state   relay.State
	trouble error // of Postgres, the last one; nil when it answers

	published atomic.Uint64
	badRows   badrow.Handler
}

// New checks the configuration and builds the relay. It connects to nothing.
func New(cfg Config) (*Relay, error) {
	if cfg.Sink == nil || cfg.NewRouter == nil || cfg.DSN == nil || cfg.Metrics == nil || cfg.Logger == nil ||
		len(cfg.Tables) == 0 {
		return nil, errors.New("polling: Sink, DSN, Tables, NewRouter, Metrics and Logger are required")
	}
	cfg.setDefaults()
	r := &Relay{
		cfg: cfg, log: cfg.Logger, window: offsets.NewWindow(cfg.WindowRecords, cfg.WindowBytes),
		stopping: make(chan struct{}), wake: make(chan struct{}, 1), scout: make(chan struct{}, 1),
		again: lookAgain, state: relay.State{Name: relay.Starting, Since: time.Now()},
	}
	r.badRows = badrow.Handler{
		Policies: cfg.Policies, Letters: cfg.DeadLetters, Metrics: cfg.Metrics, Logger: cfg.Logger,
	}
	r.scout <- struct{}{}
	for _, t := range cfg.Tables {
		r.sources = append(r.sources, &source{
			statements: newStatements(&r.cfg, t), halted: map[int]*halt{}, decided: map[int]relay.Decision{},
			locks: lockedLanes{after: foreignAfter},
		})
	}
	for i := range cfg.Workers {
		route, err := cfg.NewRouter()
		if err != nil {
			return nil, err
		}
		r.workers = append(r.workers, newWorker(r, i, route))
	}
	p, err := cfg.Sink(sink.Callbacks{Acked: r.acked, Ended: r.sessionOver})
	if err != nil {
		return nil, err
	}
	r.producer = p
	r.watchMetrics()
	return r, nil
}

// Run relays until ctx ends, then lets each worker finish its rows with Kafka, mark them, and returns nil. A row not
// done within DrainLimit is read again by the next start. It returns a *fault.Error when it cannot go on.
func (r *Relay) Run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g, life := errgroup.WithContext(life)
	g.Go(func() error { return r.producer.Run(life) })
	g.Go(func() error { return r.watchDrain(ctx, life, end) })
	g.Go(func() error {
		defer end() // the workers return without error only when the drain is over
		if err := r.verifyAtStart(life); err != nil {
			return err
		}
		return r.work(life)
	})
	err := orEnded(ctx, &r.cfg, g.Wait())
	r.setState(relay.State{Name: relay.Stopped})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// work runs the workers and the goroutines that look after them.
func (r *Relay) work(life context.Context) error {
	around, end := context.WithCancel(life)
	defer end()
	others, around := errgroup.WithContext(around)
	others.Go(func() error { return r.watchTables(around) })
	if r.cfg.Notify {
		others.Go(func() error { return r.listen(around) })
	}
	if r.cfg.Schemas != nil {
		others.Go(func() error { return r.cfg.Schemas.Run(around) })
	}
	others.Go(func() error {
		defer end()
		return r.workSessions(around)
	})
	return others.Wait()
}

// verifyAtStart waits for a server that is not there, and judges one that is.
func (r *Relay) verifyAtStart(ctx context.Context) error {
	again := newRetry()
	for {
		err := r.verifyAlone(ctx) // first: verify's advice may lead to polling
		if err == nil {
			err = r.verify(ctx)
		}
		switch {
		case err == nil || r.isStopping() || ctx.Err() != nil:
			return nil //nolint:nilerr // a stop does not fail the start
		case fault.KindOf(err) != fault.Retry:
			return err
		}
		r.postgresFailed(err)
		again.wait(ctx, r.stopping)
	}
}

func (r *Relay) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, verifyWithin)
	defer cancel()
	dsn, err := r.cfg.DSN()
	if err != nil {
		return &fault.Error{Kind: fault.Retry, Object: "postgres.dsn", Err: err}
	}
	return Verify(ctx, dsn, r.cfg.setup())
}

// verifyWithin bounds the questions about tables and index.
const verifyWithin = 30 * time.Second

// verifyAlone refuses tables that are read from the log, at the start only: a relay at work does not have to end.
func (r *Relay) verifyAlone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, verifyWithin)
	defer cancel()
	dsn, err := r.cfg.DSN()
	if err != nil {
		return &fault.Error{Kind: fault.Retry, Object: "postgres.dsn", Err: err}
	}
	conn, err := r.cfg.setup().connect(ctx, dsn, "cdc-outbox check")
	if err != nil {
		return err
	}
	defer postgres.CloseConn(conn)
	for _, t := range r.cfg.Tables {
		if err := refuseReadFromLog(ctx, conn, t); err != nil {
			return err
		}
	}
	return nil
}

// watchDrain turns the end of ctx into a graceful stop.
func (r *Relay) watchDrain(ctx, life context.Context, end context.CancelFunc) error {
	select {
	case <-life.Done():
		return nil
	case <-ctx.Done():
	}
	r.setState(relay.State{Name: relay.Draining})
	close(r.stopping)
	r.log.Info("stopping: waiting for what is in flight", zap.Duration(logkey.Limit, r.cfg.DrainLimit))
	timer := time.NewTimer(r.cfg.DrainLimit)
	defer timer.Stop()
	select {
	case <-life.Done():
	case <-timer.C:
		records, _ := r.window.InUse()
		r.log.Warn("stopped before everything was acknowledged and marked; the next start sends the rest again",
			zap.Int(logkey.Rows, records))
		end()
	}
	return nil
}

func (r *Relay) isStopping() bool {
	select {
	case <-r.stopping:
		return true
	default:
		return false
	}
}

// ticketBits is where a ticket's index ends and its worker begins.
const ticketBits = 32

// acked takes one acknowledged batch. The producer calls it from one goroutine.
func (r *Relay) acked(d sink.Delivery) {
	now := time.Now().UnixMilli()
	for _, ticket := range d.Tickets {
		at := r.workers[ticket>>ticketBits].batch.ack(int(uint32(ticket)))
		r.cfg.Metrics.CommitToAck(time.Duration(now-at) * time.Millisecond)
	}
	r.window.Release(len(d.Tickets), d.Bytes)
	r.published.Add(uint64(len(d.Tickets)))
	r.cfg.Metrics.Published(d.Topic, len(d.Tickets))
}

// postgresFailed notes, and says once for each reason, that Postgres cannot be worked with.
func (r *Relay) postgresFailed(err error) {
	r.mu.Lock()
	told := r.trouble != nil && r.trouble.Error() == err.Error()
	r.trouble = err
	r.mu.Unlock()
	if told {
		return
	}
	why, remedy := fault.Split(err)
	r.setState(relay.State{Name: r.unconnected(), Reason: why, Next: remedy.Next, Commands: remedy.Commands})
	r.log.Warn("cannot work with Postgres, trying again", telemetry.ErrorFields(err)...)
}

// postgresAnswered is the other side.
func (r *Relay) postgresAnswered() {
	r.heard.Store(time.Now().UnixNano())
	r.mu.Lock()
	was := r.trouble
	r.trouble = nil
	calm := was == nil && r.state.Name == relay.Polling
	r.mu.Unlock()
	if calm {
		return
	}
	r.setState(relay.State{Name: relay.Polling})
	if was != nil {
		r.log.Info("Postgres responds again")
	}
}

func (r *Relay) unconnected() relay.StateName {
	if r.heard.Load() > 0 {
		return relay.Reconnecting
	}
	return relay.Starting
}

// connectionMade counts the connections that were made again.
func (r *Relay) connectionMade(again bool) {
	if again {
		r.cfg.Metrics.Reconnected(telemetry.Postgres)
	}
}
