package kafka

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Producer writes records to Kafka. See the package comment.
type Producer struct {
	cfg     Config
	log     *zap.Logger
	metrics *metrics

	// mu guards everything below, and the topics, partitions, brokers and queued batches reached from there.
	mu       producerLock
	stage    stage
	topics   topics
	latest   *topic   // of the last record
	numbered []*topic // by the router's numbers; see topicOf
	brokers  map[int32]*broker
	picked   []*partition // scratch of collect
	touched  []*partition // scratch of answer
	stamped  stamped      // scratch of timely

	id           identity
	idTrouble    trouble
	tokenTrouble trouble // see ofTokens
	troubles     troubleLog
	idFailures   int

	flushed  bool         // Flush was called since the last Produce
	produced uint64       // records taken by Produce
	inUse    atomic.Int64 // partitions; see Partitions
	acked    uint64       // records whose Acked has returned
	ticked   uint64       // produced, at the last tick
	tickedAt time.Time    // of the last tick that flushed
	flying   int          // requests in flight

	generation uint64 // of requests: Abandon begins a new one, and the answers to older requests mean nothing
	waiting    map[*partition]struct{}

	completed []*batch // acknowledged, for deliver
	spare     []*batch

	changed chan struct{} // closed and replaced when what a waiting Produce or Drain looks at has changed
	waiters int

	own *ownership    // nil for a producer without an owner
	tx  *transactions // nil in idempotent mode

	control control
	clock   clock         // tick has something earlier to do
	acks    chan struct{} // capacity 1: completed is not empty

	ended   error        // why the session is over; nil: it is not
	dropped sink.Dropped // by the last Abandon

	ctx     context.Context // of Run; set before the goroutines start
	cancel  context.CancelFunc
	started bool
	over    bool // Run has ended
	fatal   error
	stopped chan struct{}  // closed when Run has ended
	wg      sync.WaitGroup // every goroutine but deliver
}

// New returns a producer. It connects to nothing before Run. Errors are *fault.Error of kind Config.
func New(cfg Config) (*Producer, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Acked == nil {
		panic("kafka: no callback for acknowledgements")
	}
	m := newMetrics(cfg.Registerer)
	m.expect()
	if cfg.Transactions != nil {
		m.expectTransactions()
	}
	own := newOwnership(&cfg)
	p := &Producer{
		cfg:      cfg,
		log:      cfg.Logger,
		troubles: newTroubleLog(cfg.Logger),
		metrics:  m,
		topics:   topics{},
		brokers:  map[int32]*broker{},
		id:       noIdentity,
		waiting:  map[*partition]struct{}{},
		changed:  make(chan struct{}),
		control:  newControl(&cfg),
		own:      own,
		tx:       newTransactions(cfg.Transactions, own),
		clock:    make(chan struct{}, 1),
		acks:     make(chan struct{}, 1),
		stopped:  make(chan struct{}),
	}
	p.mu.p = p
	return p, nil
}

// Run connects and sends until ctx ends, which returns nil. Records not acknowledged by then are abandoned: it was
// never reported to Acked. Any other return is an Operator or Fatal *fault.Error; a failure that passes, or that can
// be fixed while the producer waits, is in Trouble instead. When Run returns, all its goroutines have ended and
// Acked is not called any more. Run may be called once.
func (p *Producer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	if p.started {
		panic("kafka: Run called twice")
	}
	p.ctx, p.cancel, p.started = ctx, cancel, true
	p.mu.Unlock()

	var deliver sync.WaitGroup
	quit := make(chan struct{})
	deliver.Go(func() { p.deliver(quit) })
	p.wg.Go(func() { p.runControl(ctx) })
	p.wg.Go(func() { p.runClock(ctx) })
	if p.own != nil {
		p.wg.Go(func() { p.runOwner(ctx) })
	}

	<-ctx.Done()
	p.wg.Wait()
	close(quit)
	deliver.Wait()
	emptyFree()

	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	close(p.stopped)
	return p.fatal
}

// Produce appends the record to the batch of its partition. It keeps nothing of rec, which the caller may use
// again when Produce returns. Records of a partition are written in the order of their Produce.
//
// It does not wait for a topic that was not met before, see awaitingmetadata.go. It blocks while partitions are being
// added to the topic, or the limit that the record exceeds has to be asked for; ctx ends that wait and its error is
// returned. A record that the topic cannot take returns a *RefusedError, with nothing taken. The ticket comes back in a
// Delivery. Memory is bounded by the caller, who stops calling Produce when too much is unacknowledged.
func (p *Producer) Produce(ctx context.Context, rec *router.Record, ticket uint64) error {
	return p.ProduceAt(ctx, rec, ticket, sink.Position{})
}

// ProduceAt is Produce for exactly-once delivery: pos is what is covered once the record and all before it are
// committed. In idempotent mode it means nothing.
func (p *Producer) ProduceAt(ctx context.Context, rec *router.Record, ticket uint64, pos sink.Position) error {
	p.mu.Mutex.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over:
		return p.ending()
	case p.ended != nil:
		return p.ended
	}
	t, size := p.topicOf(rec), rec.Size()
	if p.stages(t, rec, size) {
		p.produced++
		p.flushed = false
		p.toStage(t, rec, size, ticket, pos)
		return nil
	}
	p.flushStage()
	if err := p.refusedBefore(ctx, t, rec); err != nil {
		return err
	}
	part, err := p.partitionFor(ctx, t, rec)
	if err != nil {
		return err
	}
	if t.tight(rec, size) {
		if err := p.fits(ctx, t, rec); err != nil {
			return err
		}
		if part, err = p.partitionFor(ctx, t, rec); err != nil {
			return err
		}
	}

	p.produced++
	p.flushed = false
	if part == nil {
		t.stow(rec, ticket, pos, p.tx)
		return nil
	}
	if p.tx != nil {
		p.tx.add(part, size, pos)
	}
	p.put(part, rec, ticket)
	p.send(part)
	return nil
}

// send sends the batches that are due after a record was appended to the partition.
func (p *Producer) send(part *partition) {
	if !part.isReady {
		part.refresh()
	}
	if part.isReady {
		part.broker.count(part)
		p.pump(part.broker)
	}
}

// put appends the record to the partition's open batch.
func (p *Producer) put(part *partition, rec *router.Record, ticket uint64) {
	t, own := part.topic, rec
	if !t.times.keeps(rec.Timestamp) {
		rec = t.timely(rec, p.cfg.KeepTimestamps, &p.stamped)
	}
	n := 0
	if part.open != nil {
		n = part.open.append(rec, ticket, t.limit)
	}
	if n == 0 {
		p.rollBatch(part)
		n = wire.HeaderSize + part.open.append(rec, ticket, t.limit)
	}
	if rec != own {
		part.open.window -= int64(rec.Size() - own.Size()) // the caller's window knows nothing of the header
	}
	part.pending += n
}

// rollBatch seals the partition's open batch, if there is one, and opens another.
func (p *Producer) rollBatch(part *partition) {
	part.seal()
	part.begin()
	part.open.made = part.topic.look()
	if p.tx != nil {
		part.open.tx = p.tx.filling
	}
	if part.broker == nil {
		p.control.wantMetadata()
	}
}

// Flush says that no more records are coming right now: pending records go out as soon as nothing else is in flight.
// Without it, less than a full request may wait for more. Call it when there is nothing to read, and before
// waiting for anything.
func (p *Producer) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flush()
}

func (p *Producer) flush() {
	if p.flushed {
		return
	}
	p.flushed = true
	for _, b := range p.brokers {
		p.pump(b)
	}
	if p.tx != nil {
		p.trySeal(time.Now())
	}
}

// Drain flushes and waits until Acked has returned for every record produced so far. It returns the error of ctx, or
// of Run when that ends first.
func (p *Producer) Drain(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.acked < p.produced {
		p.commit()
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fail ends Run with the error; the first one counts.
func (p *Producer) fail(err error) {
	if p.fatal == nil {
		p.fatal = err
	}
	p.cancel()
}
