package kafka

import (
	"cmp"
	"context"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// Transactions configures exactly-once delivery: each record is part of a Kafka transaction that also holds the
// position of the last record in it (KIP-98), so a consumer with isolation.level=read_committed sees each record once,
// whatever repeats after a crash.
type Transactions struct {
	// PositionTopic is the topic the position is committed for, as an offset of a consumer group. It stays empty; it
	// is created where it is missing. Default "cdc-outbox.positions".
	PositionTopic string

	// Instance says who we are, for the sentence of the instance that we take over from: host, pid, start.
	Instance string

	// Interval is how long a transaction collects records under load. A lone record does not wait for it. Default 50
	// ms.
	Interval time.Duration

	// Timeout is after how long the coordinator aborts a transaction that is not ended. The brokers' limit is
	// transaction.max.timeout.ms. Default 60 s.
	Timeout time.Duration

	// Bytes is the size at which a transaction is ended at the next Mark, without waiting for Interval. Default 4 MiB.
	Bytes int64
}

func (t *Transactions) setDefaults() {
	t.PositionTopic = cmp.Or(t.PositionTopic, wire.DefaultPositionTopic)
	t.Instance = cmp.Or(t.Instance, "unknown")
	t.Interval = cmp.Or(t.Interval, 50*time.Millisecond)
	t.Timeout = cmp.Or(t.Timeout, wire.TransactionTimeout)
	t.Bytes = cmp.Or(t.Bytes, 4<<20)
}

// transaction is one Kafka transaction. Guarded by the producer's lock; only the goroutine of runOwner ends one.
//
// There are at most two: live, whose batches may be sent, and after it, once live is sealed, the transaction that
// Produce fills meanwhile. Its batches lie in the partitions' queues until the live one has ended: a producer can have
// one transaction at a time in Kafka.
type transaction struct {
	parts   []*partition // with records in it
	unadded []*partition // the members of parts that Kafka's transaction does not hold yet
	entered int          // members of parts with an acknowledged batch
	records uint64
	// unplaced records have no partition yet. The transaction is not begun in Kafka while there are some.
	unplaced int

	acked  uint64 // records in the log, invisible until the commit
	bytes  int64
	last   sink.Position // of the last record
	began  time.Time     // when it had a record and was live
	opened time.Time     // when the coordinator may have heard of it first; zero while it has not

	sealed       bool   // no more records
	metadata     string // the offset metadata that commits with it; set when sealed
	writes       int64  // of the mark in it
	offsetsAdded bool
	positioned   bool // the position is in the transaction
	doubtful     bool // an answer about it was lost, so the request may still arrive
}

// transactions is the state of exactly-once delivery; nil in idempotent mode.
type transactions struct {
	*ownership
	cfg Transactions

	live     *transaction
	filling  *transaction
	boundary bool // the last record was followed by Mark
	hurry    bool // the caller waits: seal wherever it is
	timer    bool // the clock knows of sealAt
	sealAt   time.Time
	sealedAt time.Time // of the last seal

	mark   sink.Mark     // stored with each transaction
	kept   int64         // the number of the mark that was kept last
	quiet  time.Time     // when a mark is kept although no record comes
	latest sink.Position // of the last transaction that was committed

	count uint64 // transactions sealed in this life
}

func newTransactions(cfg *Transactions, o *ownership) *transactions {
	if cfg == nil {
		return nil
	}
	x := &transactions{ownership: o, cfg: *cfg, live: &transaction{}}
	x.cfg.setDefaults()
	x.filling, o.timeout, o.positionTopic = x.live, x.cfg.Timeout, x.cfg.PositionTopic
	return x
}

// add counts a record that goes to the partition's open batch.
func (x *transactions) add(part *partition, size int, pos sink.Position) {
	x.include(size, pos)
	t := x.filling
	if part.filling != t {
		part.filling = t
		t.parts = append(t.parts, part)
		t.unadded = append(t.unadded, part)
		if t == x.live {
			poke(x.wake)
		}
	}
}

// include counts a record of the transaction that is filled.
func (x *transactions) include(size int, pos sink.Position) {
	t := x.filling
	if t.records == 0 {
		t.began = time.Now()
	}
	t.records++
	t.bytes += int64(size)
	t.last = pos
	x.boundary, x.hurry = false, false
}

// Mark says that the records so far are a whole: transactions end here where they can, so that a consumer sees all
// records of one upstream transaction at once. It does nothing in idempotent mode.
func (p *Producer) Mark() {
	x := p.tx
	if x == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	x.boundary = true
	p.trySeal(time.Now())
}

// Commit says that the caller waits for the records that it has produced: it flushes, and the transaction ends here,
// also between two marks. In idempotent mode it is Flush.
func (p *Producer) Commit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commit()
}

// Full says that the caller waits for room. It flushes, and the transaction that is filled ends here, unless another
// with records is being committed: that will make room, and a transaction filled meanwhile would be small. It ends
// between two marks only when there is nothing else that could make room, so that a whole transaction of the source
// stays whole. The caller repeats it after each acknowledgement, and between two marks until there is room. In
// idempotent mode it is Flush.
func (p *Producer) Full() {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.tx
	if x == nil || x.live.records == 0 || x.filling == x.live && (x.boundary || p.produced-p.acked <= x.live.records) {
		p.commit()
		return
	}
	p.flush()
}

func (p *Producer) commit() {
	p.flush()
	if p.tx != nil {
		p.tx.hurry = true
		p.trySeal(time.Now())
	}
}

// trySeal ends the intake of the live transaction where it is time to. It is Nagle's rule once more, with the
// transaction as the packet: a lone one goes at once, under load there is one for each interval.
func (p *Producer) trySeal(now time.Time) {
	x := p.tx
	t := x.filling
	if t != x.live || t.records == 0 {
		return
	}
	switch {
	case x.hurry:
	case !x.boundary:
		// The rest of the upstream transaction is still arriving. It must not take longer than Kafka lets one be open.
		if now.Sub(t.began) < x.cfg.Timeout/3 {
			return
		}
	case t.bytes >= x.cfg.Bytes:
	case p.flushed:
		if at := x.sealedAt.Add(x.cfg.Interval); at.After(now) {
			if !x.timer {
				x.timer, x.sealAt = true, at
				p.clock.wake()
			}
			return
		}
	case now.Sub(t.began) < x.cfg.Interval:
		return
	}
	p.seal(now)
}

func (p *Producer) seal(now time.Time) {
	x := p.tx
	t := x.live
	for _, part := range t.parts {
		part.seal()
	}
	x.count++
	t.sealed, t.metadata, t.writes = true, x.metadata(t.last), x.mark.Writes
	x.filling = &transaction{}
	x.sealedAt, x.hurry, x.timer = now, false, false
	for _, b := range p.brokers {
		p.pump(b)
	}
	poke(x.wake)
}

// tickTransaction is the clock's part.
func (p *Producer) tickTransaction(now, next time.Time) time.Time {
	x := p.tx
	if x == nil {
		return next
	}
	if x.timer && x.sealAt.After(now) {
		return earlier(next, x.sealAt)
	}
	x.timer = false
	p.trySeal(now)
	return p.sealMark(now, next)
}

// markQuiet is how long a mark waits for a transaction with records to be kept with.
const markQuiet = 200 * time.Millisecond

// Remember has the next transaction keep the mark beside the position. Where no record comes for a while, a transaction
// without records does.
func (p *Producer) Remember(m sink.Mark) {
	x := p.tx
	if x == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if x.mark = m; x.quiet.IsZero() {
		x.quiet = time.Now().Add(markQuiet)
		p.clock.wake()
	}
}

// Remembered waits until the mark is kept, as long as ctx lasts.
func (p *Producer) Remembered(ctx context.Context) error {
	x := p.tx
	if x == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for x.kept != x.mark.Writes && p.own.begun && !p.over {
		x.quiet = time.Now()
		p.clock.wake()
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sealMark begins a transaction that keeps the mark alone, when it has waited for long enough.
func (p *Producer) sealMark(now, next time.Time) time.Time {
	x := p.tx
	if x.quiet.IsZero() {
		return next
	}
	t := x.filling
	switch {
	case x.mark.Writes == x.kept:
		x.quiet = time.Time{}
	case now.Before(x.quiet):
		return earlier(next, x.quiet)
	case !p.own.begun || p.ended != nil || t != x.live || t.records > 0:
		x.quiet = now.Add(markQuiet)
		return earlier(next, x.quiet)
	default:
		x.quiet = time.Time{}
		t.began, t.last = now, x.latest
		p.seal(now)
	}
	return next
}

// ends reports whether the live transaction waits for its records, which go out although they fill no request.
func (x *transactions) ends() bool { return x != nil && x.live.sealed }

// hold keeps an acknowledged batch until its transaction has ended.
func (x *transactions) hold(b *batch) {
	part, t := b.part, b.tx
	part.held = append(part.held, b)
	t.acked += uint64(b.records)
	first := part.entered != t
	if first {
		part.entered = t
		t.entered++
	}
	if t.sealed && (t.acked == t.records || first && t.verified()) {
		poke(x.wake)
	}
}

// verified reports whether no leader has the coordinator still to ask whether the transaction holds its partition. It
// asks at the first batch, and a group coordinator asks at TxnOffsetCommit. A broker asks about one transactional id
// once at a time: while a question waits, another one about the same id has it fail, and a batch is refused with
// NOT_ENOUGH_REPLICAS (AddPartitionsToTxnManager in Kafka's source, KIP-890).
func (t *transaction) verified() bool { return t.entered >= len(t.parts) || t.acked == t.records }

// succeed hands the batches of the live transaction, which is committed, to Acked, and makes the next one live.
func (p *Producer) succeed() {
	x := p.tx
	t := x.live
	for _, part := range t.parts {
		p.completed = append(p.completed, part.held...)
		clear(part.held)
		part.held = part.held[:0]
	}
	poke(p.acks)
	p.metrics.transactions.WithLabelValues("committed").Inc()
	p.metrics.transactionSeconds.Observe(time.Since(t.began).Seconds())
	x.latest, x.kept = t.last, t.writes
	p.announce()
	x.live = x.filling
	now := time.Now()
	x.live.began = now
	p.trySeal(now)
}

// timedOut reports whether the coordinator may have aborted the live transaction for its age.
func (x *transactions) timedOut() bool {
	return !x.live.opened.IsZero() && time.Since(x.live.opened) >= x.cfg.Timeout*3/4
}
