package connector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/base/traces"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/badrow"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Config is a Connector's configuration. Zero durations and sizes take the defaults named.
type Config struct {
	Replication replication.Config // Confirmed, OnIdentity and OnState are set by the connector
	Sink        sink.Open          // required; its producer has an owner
	Router      router.Router      // required; used by one goroutine only
	Schemas     relay.Schemas      // that the Router may need; nil: it needs none

	ExactlyOnce bool        // the producer stores the position together with the records
	Keeper      sink.Keeper // of the checkpoint's mark if the producer stores no position; nil: none is kept

	Policies    relay.Policies     // for bad rows
	DeadLetters deadletter.Builder // required if a policy is DeadLetter

	// Snapshot opens the rows that were in the outbox when the slot was made; nil, or a nil answer: there are none to
	// publish.
	Snapshot       func(ctx context.Context) (Snapshot, error)
	SnapshotHeader bool // they carry the header snapshot

	// Standbys holds each transaction back until the physical standbys that may be promoted have it; nil: no standby is
	// waited for.
	Standbys *standbys.Gate

	OnChange OnChange // at an UPDATE or TRUNCATE of the outbox; default WarnOfChange

	WindowRecords int   // default 100,000
	WindowBytes   int64 // default 32 MiB
	// not ready when Postgres was silent, or a record unacknowledged, for longer; default 15 s
	Stall      time.Duration
	DrainLimit time.Duration // how long a graceful stop may take; default 8 s

	Traces  *traces.Recorder   // nil: none
	Metrics *telemetry.Metrics // required
	Logger  *zap.Logger        // required
}

// Connector is the running relay. Make one with New, run it once.
type Connector struct {
	cfg      Config
	log      *zap.Logger
	producer sink.Producer
	keeper   sink.Keeper // nil with transactions
	window   *offsets.Window
	tracker  atomic.Pointer[offsets.Tracker] // nil until the slot's position is known

	source func(ctx context.Context, cfg replication.Config, consume func(stream) error) error

	end      context.CancelFunc  // of life
	life     context.Context     // ends when the process must stop working; set by Run
	stopping chan struct{}       // closed when a graceful stop is asked for
	moved    chan struct{}       // capacity 1: an acknowledgement came
	pausing  atomic.Bool         // the reader waits between transactions for Kafka
	ended    chan error          // capacity 1: the session with Kafka is over, and why
	decided  chan relay.Decision // capacity 1: the operator's decision about the halted row
	switched chan struct{}       // capacity 1: a pause began or ended
	failure  chan error          // holds the first error of a callback, which has no caller to return it to

	paused atomic.Pointer[relay.Pause] // nil: it reads
	over   atomic.Pointer[error]       // why the session is over; nil: it is not, or the reader has dealt with it

	mu       sync.Mutex
	stream   stream        // the open one, nil between streams
	received lsn.LSN       // of the last stream
	heard    time.Time     // when the last stream heard from Postgres; zero before the first
	ahead    time.Duration // of the server's clock, by the last stream
	identity replication.Identity
	written  replication.Mark // of the checkpoint's last write
	state    relay.State
	streamed bool // there was a stream before
	barren   barren
	fencing  bool // Kafka has yet to hand over the transactional id
	halted   *relay.HaltedRow

	counts   counts
	badRows  badrow.Handler
	snapshot snapshotProgress
	progress progress
	reader   reader
}

// New checks the configuration and builds the connector. It connects to nothing.
func New(cfg Config) (*Connector, error) {
	if cfg.Sink == nil || cfg.Router == nil || cfg.Metrics == nil || cfg.Logger == nil {
		return nil, errors.New("connector: Sink, Router, Metrics and Logger are required")
	}
	cfg.OnChange = cmp.Or(cfg.OnChange, WarnOfChange)
	cfg.WindowRecords = cmp.Or(cfg.WindowRecords, 100_000)
	cfg.WindowBytes = cmp.Or(cfg.WindowBytes, 32<<20)
	cfg.Stall = cmp.Or(cfg.Stall, 15*time.Second)
	cfg.DrainLimit = cmp.Or(cfg.DrainLimit, 8*time.Second)
	c := &Connector{
		cfg:    cfg,
		log:    cfg.Logger,
		window: offsets.NewWindow(cfg.WindowRecords, cfg.WindowBytes),
		source: runStreams,
		state:  relay.State{Name: relay.Starting, Since: time.Now()},

		progress: progress{epoch: time.Now()},

		stopping: make(chan struct{}),
		moved:    make(chan struct{}, 1),
		ended:    make(chan error, 1),
		failure:  make(chan error, 1),
		decided:  make(chan relay.Decision, 1),
		switched: make(chan struct{}, 1),
	}
	c.badRows = badrow.Handler{
		Policies: cfg.Policies, Letters: cfg.DeadLetters, Metrics: cfg.Metrics, Logger: cfg.Logger,
	}
	c.reader.c, c.reader.lead = c, newLead(cfg.WindowBytes, cfg.ExactlyOnce)
	p, err := cfg.Sink(sink.Callbacks{Acked: c.acked, Ended: c.onSessionEnd})
	if err != nil {
		return nil, err
	}
	c.producer, c.keeper = p, cfg.Keeper
	cfg.Metrics.Watch(c.gauges())
	if cfg.Standbys != nil {
		cfg.Metrics.WatchStandbys(cfg.Standbys.Waited)
	}
	c.badRows.Register()
	return c, nil
}

// Run relays until ctx ends, then drains: it reads to the end of the open transaction, waits for the acknowledgements,
// confirms them to the slot and returns nil. Work that is not done within DrainLimit is left to the next start, which
// repeats it. It returns a *fault.Error when it cannot go on.
func (c *Connector) Run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g, life := errgroup.WithContext(life)
	c.life, c.end = life, end
	g.Go(func() error { return c.producer.Run(life) })
	g.Go(func() error {
		defer end() // the source returns without error only when the drain is over
		return c.source(life, c.replicationConfig(), c.reader.consume)
	})
	if c.keeper != nil {
		g.Go(func() error { return c.keeper.Run(life) })
	}
	if c.cfg.Schemas != nil {
		g.Go(func() error { return c.cfg.Schemas.Run(life) })
	}
	if c.cfg.Standbys != nil {
		g.Go(func() error { return c.cfg.Standbys.Run(life) })
	}
	g.Go(func() error { return c.watchDrain(ctx, life, end) })
	g.Go(func() error { return c.watchProgress(life) })
	g.Go(func() error {
		select {
		case err := <-c.failure:
			return err
		case <-life.Done():
			return nil
		}
	})
	err := g.Wait()
	c.setState(relay.State{Name: relay.Stopped})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// fail ends Run with err, from a callback.
func (c *Connector) fail(err error) {
	select {
	case c.failure <- err:
	default: // one is enough
	}
}

// confirmed is 0 while the slot's own position is unknown.
func (c *Connector) confirmed() offsets.LSN {
	if t := c.tracker.Load(); t != nil {
		return t.Confirmed()
	}
	return 0
}

// slot names it in errors.
func (c *Connector) slot() string { return fmt.Sprintf("slot %q", c.cfg.Replication.Slot) }
