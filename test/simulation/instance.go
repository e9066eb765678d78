package simulation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/broker"
	"github.com/cdc-outbox/cdc-outbox/test/simulation/network"
)

// instance is a unit of a supervisor: a connector that is started again when it ends with exit code 1, and stays down
// after exit code 3.
type instance struct {
	w    *world
	name string

	mu    sync.Mutex
	runs  int
	life  *life // the present one, nil while it is down
	all   sync.WaitGroup
	over  error // why it stays down
	unfit bool  // it ended because rows were hidden from its stream
}

// life is one process.
type life struct {
	host   string
	dead   atomic.Bool // it was killed: what is left of it reaches nothing
	cancel context.CancelFunc
	over   chan struct{} // closed when it has ended
}

func (in *instance) start() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.life != nil || in.over != nil {
		return
	}
	in.runs++
	l := &life{host: fmt.Sprintf("%s%d", in.name, in.runs), over: make(chan struct{})}
	c, err := in.relay(l)
	if err != nil {
		in.w.wrong("E", "instance %s cannot be built: %v", l.host, err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel, in.life = cancel, l
	in.w.say("%s starts", l.host)
	in.all.Go(func() {
		err := c.Run(ctx)
		cancel()
		defer close(l.over)
		if !in.w.plan.Stale {
			in.sever(l, false)
		}
		in.ended(l, err)
	})
}

// ended is what the supervisor does about the end of a process.
func (in *instance) ended(l *life, err error) {
	in.w.say("%s ended: %v", l.host, err)
	in.mu.Lock()
	if in.life != l {
		in.mu.Unlock()
		return
	}
	in.life = nil
	if errors.Is(err, errUnpublished) {
		in.unfit = true
		in.mu.Unlock()
		if !in.w.postgres.Hides() { // it was put right before the process had ended
			in.revive()
		}
		return
	}
	if err != nil && fault.KindOf(err) == fault.Operator {
		in.over = err
		in.mu.Unlock()
		in.w.halted(in, err)
		return
	}
	in.mu.Unlock()
	if err == nil {
		return
	}
	in.w.wrong("E", "instance %s ended with %s: %v", l.host, fault.KindOf(err), err)
}

func (in *instance) halted() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.over
}

// stop asks the process to end. It returns what is closed when it has.
func (in *instance) stop() <-chan struct{} {
	in.mu.Lock()
	l := in.life
	in.life = nil
	in.mu.Unlock()
	if l == nil {
		over := make(chan struct{})
		close(over)
		return over
	}
	l.cancel()
	return l.over
}

// kill ends the process at once: from here on it reaches nothing.
func (in *instance) kill(deliver bool) {
	in.mu.Lock()
	l := in.life
	in.life = nil
	in.mu.Unlock()
	if l == nil {
		return
	}
	l.dead.Store(true)
	in.sever(l, deliver && in.w.plan.Stale)
	l.cancel()
}

// sever cuts every connection of the process.
func (in *instance) sever(l *life, deliver bool) {
	for _, r := range in.w.routes(l.host) {
		in.w.net.Cut(r, deliver)
	}
}

func (in *instance) wait() { in.all.Wait() }

// host names the present process on the network.
func (in *instance) host() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.life == nil {
		return in.name + "-"
	}
	return in.life.host
}

func (w *world) routes(host string) []network.Route {
	all := []network.Route{{From: host, To: postgresAddress}}
	for id := range int32(w.plan.Brokers) {
		all = append(all, network.Route{From: host, To: broker.Address(id)})
	}
	return all
}

var errKilled = errors.New("the process was killed")

// runs is what a process runs.
type runs interface {
	Run(ctx context.Context) error
}

// relay builds the process's relay.
func (in *instance) relay(l *life) (runs, error) {
	dialer := in.w.net.Dialer(l.host)
	dial := func(ctx context.Context, kind, address string) (net.Conn, error) {
		if l.dead.Load() {
			return nil, errKilled
		}
		conn, err := dialer(ctx, kind, address)
		if err == nil && l.dead.Load() {
			_ = conn.Close()
			return nil, errKilled
		}
		return conn, err
	}
	logger := zap.NewNop()
	if in.w.tracing {
		logger = zap.New(traceCore{w: in.w, host: l.host})
	}
	p := in.w.plan
	if p.Polling > 0 {
		return in.polls(l, dial, logger)
	}
	return in.readsLog(l, dial, logger)
}

func dsn() (string, error) {
	return "host=10.0.0.1 port=5432 user=relay dbname=shop sslmode=disable", nil
}

func newRouter() (router.Router, error) {
	return outbox.New(outbox.Config{
		Columns: outbox.Columns{
			ID: "id", AggregateType: "aggregate_type", AggregateID: "aggregate_id", Type: "event_type",
			Payload: "payload",
		},
		Topic: outbox.DefaultTopic,
	})
}

type dialFunc = func(ctx context.Context, kind, address string) (net.Conn, error)

func (in *instance) readsLog(l *life, dial dialFunc, logger *zap.Logger) (runs, error) {
	p := in.w.plan
	rt, err := newRouter()
	if err != nil {
		return nil, err
	}
	cfg := connector.Config{
		Replication: replication.Config{
			DSN:  dsn,
			Slot: slotName, Publication: "cdc_outbox", Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
			Checkpoint: identifier.Table{Schema: "public", Name: tableName}, Dial: dial, Logger: logger,
		},
		ExactlyOnce: p.ExactlyOnce, Router: rt, WindowRecords: p.Window, Logger: logger,
		Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
	}
	if p.Gate != "" {
		cfg.Standbys = standbys.New(standbys.Config{
			Demand: standbys.Demand{Names: []string{p.Gate}}, DSN: dsn, Slot: slotName, Dial: dial, Logger: logger,
		})
	}
	if p.NoMemory {
		cfg.Replication.Checkpoint = identifier.Table{}
	}
	producer := in.producer(l, dial, logger)
	if cfg.Sink = kafka.Open(producer); !p.ExactlyOnce {
		cfg.Keeper = kafka.NewKeeper(producer.Cluster, logger)
	}
	c, err := connector.New(cfg)
	if err != nil || p.LookEvery == 0 {
		return c, err
	}
	return newAccount(c, producer, dial, p.LookEvery), nil
}

func (in *instance) producer(l *life, dial dialFunc, logger *zap.Logger) kafka.Config {
	p := in.w.plan
	cfg := kafka.Config{
		Cluster: wire.Cluster{Dial: dial, RequestTimeout: p.RequestTime, Identity: &wire.Identity{}}, Owned: true,
		Logger: logger, MaxRequestBytes: p.Request, MaxBatchBytes: p.Request, Ends: &kafka.LogEnds{},
	}
	for id := range int32(p.Brokers) {
		cfg.Brokers = append(cfg.Brokers, broker.Address(id))
	}
	if p.ExactlyOnce {
		cfg.Transactions = &kafka.Transactions{Instance: l.host, Timeout: 10 * time.Second}
	}
	return cfg
}

// traceCore writes the logs of an instance into the trace.
type traceCore struct {
	w      *world
	host   string
	fields []zapcore.Field
}

func (c traceCore) Enabled(zapcore.Level) bool { return true }

func (c traceCore) With(f []zapcore.Field) zapcore.Core {
	c.fields = append(c.fields[:len(c.fields):len(c.fields)], f...)
	return c
}

func (c traceCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return ce.AddCore(e, c)
}

func (c traceCore) Write(e zapcore.Entry, f []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, field := range append(c.fields[:len(c.fields):len(c.fields)], f...) {
		field.AddTo(enc)
	}
	c.w.say("%s %s %s %v", c.host, e.Level, e.Message, enc.Fields)
	return nil
}

func (c traceCore) Sync() error { return nil }
