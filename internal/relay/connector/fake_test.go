package connector

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

var relation = &pgoutput.Relation{OID: 1, Namespace: "public", Name: "outbox", Columns: []pgoutput.Column{
	{Name: "id"}, {Name: "aggregate_type"}, {Name: "aggregate_id"}, {Name: "event_type"}, {Name: "payload"},
}}

func begin(commit uint64) *pgoutput.Message {
	return &pgoutput.Message{Kind: pgoutput.KindBegin, Begin: pgoutput.Begin{
		CommitLSN: lsn.LSN(commit), CommitTime: committed(commit), XID: uint32(commit),
	}}
}

var epoch = time.Now().UTC().Truncate(time.Microsecond)

// committed is when the transaction of a commit record was committed, also where a stream repeats it. In a bubble, it
// is the beginning.
func committed(commit uint64) time.Time {
	if time.Now().Before(epoch) {
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return epoch.Add(time.Duration(commit) * time.Microsecond)
}

func commit(end uint64) *pgoutput.Message {
	return &pgoutput.Message{Kind: pgoutput.KindCommit, Commit: pgoutput.Commit{EndLSN: lsn.LSN(end)}}
}

func keepalive(end uint64) *pgoutput.Message {
	return &pgoutput.Message{Kind: pgoutput.KindKeepalive, Keepalive: pgoutput.Keepalive{WALEnd: lsn.LSN(end)}}
}

func row(id string) *pgoutput.Message { return typedRow(id, "order") }

func typedRow(id, aggregateType string) *pgoutput.Message {
	text := func(s string) pgoutput.Value { return pgoutput.Value{Kind: pgoutput.Text, Data: []byte(s)} }
	return &pgoutput.Message{Kind: pgoutput.KindInsert, Relation: relation, Tuple: pgoutput.Tuple{
		text(id), text(aggregateType), text("k"), text("created"), text("{}"),
	}}
}

// fakeStream hands out a script. At its end it waits for Interrupt, or breaks where the script says so.
type fakeStream struct {
	script []*pgoutput.Message
	breaks bool
	ends   error // of the script, instead

	life     context.Context // of Run
	nudge    chan struct{}
	broken   chan struct{}
	finished chan struct{}

	heldSince time.Time
	heldBack  error
	heard     time.Time     // zero: just now
	ahead     time.Duration // of the server's clock
	finish    error

	compared []replication.Mark // what Compare was given
	holders  []string
	compare  error // what it says

	confirms    bool
	heldByOther error // what Holds says
	past        bool  // what Past says
	onWait      func()
	after       []replication.State // once it broke
}

func newStream(script ...*pgoutput.Message) *fakeStream {
	return &fakeStream{
		script: script, nudge: make(chan struct{}, 1), broken: make(chan struct{}),
		finished: make(chan struct{}),
	}
}

func brokenStream(script ...*pgoutput.Message) *fakeStream {
	s := newStream(script...)
	s.breaks = true
	return s
}

func (s *fakeStream) Receive() (*pgoutput.Message, error) {
	select {
	case <-s.nudge:
		return nil, replication.ErrInterrupted
	default:
	}
	if len(s.script) > 0 && !s.lost() {
		m := s.script[0]
		s.script = s.script[1:]
		return m, nil
	}
	if s.ends != nil {
		return nil, s.ends
	}
	if s.breaks || s.lost() {
		return nil, &fault.Error{Kind: fault.Retry, Object: "stream", Err: errors.New("broken")}
	}
	s.onWait()
	select {
	case <-s.nudge:
		return nil, replication.ErrInterrupted
	case <-s.life.Done():
		return nil, s.life.Err()
	}
}

// lost reports whether the stream was broken while no process received.
func (s *fakeStream) lost() bool {
	select {
	case <-s.broken:
		return true
	default:
		return false
	}
}

func (s *fakeStream) Broken() <-chan struct{} { return s.broken }

// Interrupt may be called again before Receive has noticed.
func (s *fakeStream) Interrupt() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

func (s *fakeStream) Finish(context.Context) error { close(s.finished); return s.finish }
func (s *fakeStream) Received() lsn.LSN            { return 0x150 }

func (s *fakeStream) ServerNow() time.Time { return time.Now().Add(s.ahead) }

func (s *fakeStream) LastHeard() time.Time {
	if !s.heard.IsZero() {
		return s.heard
	}
	return time.Now()
}

func (s *fakeStream) Compare(_ context.Context, m replication.Mark, holder string) error {
	s.compared, s.holders = append(s.compared, m), append(s.holders, holder)
	return s.compare
}

func (s *fakeStream) HeldBack() (time.Time, error) { return s.heldSince, s.heldBack }

func (s *fakeStream) Holds(context.Context) error { return s.heldByOther }
func (s *fakeStream) Confirm()                    { s.confirms = true }

func (s *fakeStream) Past(context.Context, lsn.LSN) (bool, error) { return s.past, nil }

// fakeProducer keeps what it is given until ack is called; with auto it acknowledges on Flush.
type fakeProducer struct {
	auto  bool
	acked func(sink.Delivery)

	mu      sync.Mutex
	ids     []string // every record produced, by event id, in order
	tickets []uint64 // not acknowledged
	bytes   int64
	marks   []int // how many records each Mark and Commit found
	commits []int
	claims  []sink.Owner
	kept    int           // calls of Keep
	keep    error         // what it says
	drain   error         // what Drain says, where it is set
	dropped int           // records given up
	stored  *sink.Stored  // what Begin finds
	latest  *sink.Stored  // what Latest finds, default stored
	looks   error         // what Latest says
	holdIt  bool          // transactions: nothing is acknowledged but by Commit, or Flush after a Mark
	idle    chan struct{} // replaced and closed when tickets becomes empty

	limits  map[string]int  // by topic: larger records are refused
	stray   string          // the event whose row names a partition that its topic does not have
	tags    []sink.Tag      // of what is not acknowledged
	records []router.Record // copies of all that was taken
	trouble []sink.Trouble
	grown   []sink.Growth

	memory     []sink.Mark // what Remember was given
	remembered error       // what Remembered says
}

// open is the connector's Sink.
func (p *fakeProducer) open(c sink.Callbacks) (sink.Producer, error) {
	p.acked, p.idle = c.Acked, make(chan struct{})
	return p, nil
}

func (p *fakeProducer) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (p *fakeProducer) Latest(context.Context, sink.Owner) (sink.Stored, bool, error) {
	if p.latest == nil {
		p.latest = p.stored
	}
	if p.latest == nil {
		return sink.Stored{}, false, p.looks
	}
	return *p.latest, true, p.looks
}

func (p *fakeProducer) Begin(_ context.Context, claim sink.Owner) (sink.Stored, bool, error) {
	p.claims = append(p.claims, claim)
	if p.stored == nil {
		return sink.Stored{}, false, nil
	}
	return *p.stored, true, nil
}

func (p *fakeProducer) Keep(context.Context) error {
	p.kept++
	return p.keep
}

func (p *fakeProducer) Abandon() sink.Dropped {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := sink.Dropped{Records: len(p.tickets), Bytes: p.bytes}
	p.dropped += d.Records
	p.tickets, p.bytes, p.tags = nil, 0, nil
	return d
}

func (p *fakeProducer) Mark() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marks = append(p.marks, len(p.ids))
}

func (p *fakeProducer) Commit() {
	p.mu.Lock()
	p.commits = append(p.commits, len(p.ids))
	p.mu.Unlock()
	if p.holdIt {
		p.ack()
		return
	}
	p.Flush()
}

func (p *fakeProducer) ProduceAt(_ context.Context, rec *router.Record, ticket uint64, _ sink.Position) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if limit := p.limits[rec.Topic]; limit > 0 && rec.Size() > limit {
		return &sink.RefusedError{Topic: rec.Topic, Bytes: rec.Size(), Limit: limit, Reason: sink.TooLarge}
	}
	if p.stray != "" && rec.Topic != letters && string(rec.Headers[0].Value) == p.stray {
		return &sink.RefusedError{Topic: rec.Topic, Partition: 7, Partitions: 3, Reason: sink.NoPartition}
	}
	if rec.Tag != nil {
		p.tags = append(p.tags, sink.Tag{Record: int32(len(p.tickets)), Tag: rec.Tag})
	}
	p.records = append(p.records, *rec.Clone())
	p.ids = append(p.ids, string(rec.Headers[0].Value))
	p.tickets = append(p.tickets, ticket)
	p.bytes += int64(rec.Size())
	return nil
}

func (p *fakeProducer) setLimit(topic string, limit int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits[topic] = limit
}

func (p *fakeProducer) Full() { p.Commit() }

func (p *fakeProducer) Flush() {
	p.mu.Lock()
	whole := len(p.marks) > 0 && p.marks[len(p.marks)-1] == len(p.ids)
	p.mu.Unlock()
	if p.auto && (!p.holdIt || whole) {
		p.ack()
	}
}

// ack acknowledges everything.
func (p *fakeProducer) ack() {
	p.mu.Lock()
	d := sink.Delivery{
		Topic: "order.events", Partition: 3, Tickets: p.tickets, Bytes: p.bytes, Tags: p.tags,
		BaseOffset: 1000,
	}
	p.tickets, p.bytes, p.tags = nil, 0, nil
	idle := p.idle
	p.idle = make(chan struct{})
	p.mu.Unlock()
	if len(d.Tickets) > 0 {
		p.acked(d)
	}
	close(idle)
}

// ackAllBut acknowledges everything but one ticket, the oldest where stuck is 0, and returns this ticket.
func (p *fakeProducer) ackAllBut(stuck uint64) uint64 {
	p.mu.Lock()
	if stuck == 0 {
		stuck = p.tickets[0]
	}
	var rest []uint64
	for _, t := range p.tickets {
		if t != stuck {
			rest = append(rest, t)
		}
	}
	each := p.bytes / int64(len(p.tickets))
	p.tickets, p.bytes = []uint64{stuck}, each
	p.mu.Unlock()
	if len(rest) > 0 {
		p.acked(sink.Delivery{Topic: "order.events", Tickets: rest, Bytes: each * int64(len(rest))})
	}
	return stuck
}

func (p *fakeProducer) Drain(ctx context.Context) error {
	if p.drain != nil {
		return p.drain
	}
	for {
		p.mu.Lock()
		n, idle := len(p.tickets), p.idle
		p.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *fakeProducer) Remember(m sink.Mark) { p.memory = append(p.memory, m) }

func (p *fakeProducer) Remembered(context.Context) error { return p.remembered }

func (p *fakeProducer) Refresh() {}

func (p *fakeProducer) Grown() []sink.Growth { return p.grown }
func (p *fakeProducer) Partitions() int64    { return 1 }

func (p *fakeProducer) Trouble() []sink.Trouble { return slices.Clone(p.trouble) }

func (p *fakeProducer) produced() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.ids...)
}

// opening is one stream of a script, and who the server says it is when it opens.
type opening struct {
	identity replication.Identity
	stream   *fakeStream
}

// rig is a connector over scripted streams and a fake producer.
type rig struct {
	*Connector
	producer *fakeProducer
	registry *prometheus.Registry
	stop     context.CancelFunc
	done     chan error
}

// start runs a connector over the streams, one after the other, as replication.Run would. After the last one it waits.
func start(t *testing.T, cfg Config, auto bool, openings ...opening) *rig {
	t.Helper()
	return startWith(t, cfg, &fakeProducer{auto: auto}, openings...)
}

func startWith(t *testing.T, cfg Config, p *fakeProducer, openings ...opening) *rig {
	t.Helper()
	r, err := outbox.New(outbox.Config{Columns: outbox.DefaultColumns(), Topic: outbox.DefaultTopic})
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	cfg.Metrics = telemetry.NewMetrics(registry)
	if cfg.Router == nil {
		cfg.Router = r
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	cfg.Sink = p.open
	c, err := New(cfg)
	require.NoError(t, err)
	c.source = func(ctx context.Context, rc replication.Config, consume func(stream) error) error {
		for _, o := range openings {
			if err := rc.OnIdentity(o.identity); err != nil {
				return err
			}
			rc.OnState(replication.State{Phase: replication.Streaming, Identity: o.identity})
			o.stream.life, o.stream.onWait = ctx, rc.OnWait
			err := consume(o.stream)
			if err == nil || fault.KindOf(err) != fault.Retry {
				return err
			}
			rc.OnState(replication.State{Phase: replication.Waiting, Err: err})
			for _, s := range o.stream.after {
				rc.OnState(s)
			}
		}
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &rig{Connector: c, producer: p, registry: registry, stop: cancel, done: make(chan error, 1)}
	go func() { g.done <- c.Run(ctx) }()
	return g
}

// idle is a connector that does not run: for calls of its parts. Its tracker is at 0x50.
func idle(t *testing.T, cfg Config) (*Connector, *fakeProducer) {
	t.Helper()
	r, err := outbox.New(outbox.Config{Columns: outbox.DefaultColumns(), Topic: outbox.DefaultTopic})
	require.NoError(t, err)
	if cfg.Router == nil {
		cfg.Router = r
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	cfg.Metrics = telemetry.NewMetrics(prometheus.NewRegistry())
	p := &fakeProducer{auto: true}
	cfg.Sink = p.open
	c, err := New(cfg)
	require.NoError(t, err)
	c.life = t.Context()
	c.tracker.Store(offsets.NewTracker(0x50))
	c.reader.tracker = c.tracker.Load()
	return c, p
}

func at(flush uint64) replication.Identity {
	return replication.Identity{SystemID: "1", Timeline: 1, ConfirmedFlush: lsn.LSN(flush), WALEnd: 0x10000}
}

func walAt(n uint64) offsets.LSN { return offsets.LSN(n) }
