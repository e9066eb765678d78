package kafka

import (
	"fmt"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// state is the permission of a partition to send.
type state uint8

const (
	// probing: the next batch flies alone until it is acknowledged. A broker without producer state for us (fresh
	// id or epoch, expired state, new topic) takes whatever sequence comes first: were several in flight, the first
	// could fail, the second be accepted, and the first then be rejected for good. Every partition starts here and
	// comes back after each rewind.
	probing state = iota
	// normal: up to maxInFlight batches fly.
	normal
	// draining: something failed, or the leader moved. Nothing is sent until every request in flight is answered
	// or its connection is closed; then the partition rewinds.
	draining
)

func (s state) String() string { return [...]string{"probing", "normal", "draining"}[s] }

// partition is the state of one partition. Guarded by the producer's lock.
//
// The records go through three places in order: inflight (sent, sequenced), queued (sealed), open (being filled).
// Rewinding moves inflight back in front of queued, which is why queued may hold sequenced batches at its front.
type partition struct {
	// Fields that each record touches come first: of thousands of partitions, none is in the processor's cache.
	open    *batch
	broker  *broker      // the leader; nil while none is known
	pending int          // bytes in open and queued
	counted int          // bytes in broker.readyBytes on account of this partition
	usual   int          // payload of the batch that was sent last
	filling *transaction // the last one that got a record of this partition
	topic   *topic
	index   int32
	isReady bool // it is in broker.ready, between before and next
	state   state
	waiting bool // backs off until retryAt, although it could send
	begun   bool // identity is set: a batch was sequenced since the last restart

	own batch // the batch that open points to

	// An answer touches these.
	queued       []*batch
	inflight     []*batch
	before, next *partition   // nil at the ends
	registered   *transaction // the last one that Kafka knows to hold this partition
	entered      *transaction // the last one of which Kafka acknowledged a batch of this partition
	unanswered   int          // batches in requests that have neither an answer nor a closed connection
	attempt      int          // failures since the last acknowledgement
	identity     identity     // that the sequence belongs to
	nextSequence int32        // of the next batch to be sequenced
	leaderEpoch  int32
	lastAck      time.Time
	lacking      time.Time // since when replicas are said to be missing, zero while they are not
	trouble      trouble

	held    []*batch     // acknowledged, the transaction not committed
	cause   wire.Verdict // why it drains, the zero value for none
	retryAt time.Time    // when waiting
}

func (part *partition) String() string { return fmt.Sprintf("%s/%d", part.topic.name, part.index) }

// object names it for operators.
func (part *partition) object() string {
	if part.index < 0 {
		return fmt.Sprintf("topic %q", part.topic.name)
	}
	return "partition " + part.String()
}

// sendable reports whether a batch could go out now, as far as the partition is concerned.
func (part *partition) sendable() bool {
	if part.broker == nil || part.waiting || part.pending == 0 {
		return false
	}
	if t := part.head().tx; t != nil && t != part.registered {
		return false // a later transaction's, or not known to the coordinator yet
	}
	switch part.state {
	case probing:
		return len(part.inflight) == 0
	case normal:
		return len(part.inflight) < maxInFlight
	default:
		return false
	}
}

// busy reports whether anything in the partition waits for an acknowledgement.
func (part *partition) busy() bool {
	return part.open != nil || len(part.queued)+len(part.inflight) > 0
}

// An open batch gets its slices from a recycled one. The slices of a busy partition are too large for thousands of idle
// ones, each of which would keep them.
const (
	spareFactor  = 4
	spareTickets = 32
	spareFull    = 8
)

// seal closes the open batch, if there is one.
func (part *partition) seal() {
	if part.open == nil {
		return
	}
	b := newBatch(part)
	tickets, full := b.tickets, b.full
	if cap(tickets) > spareFactor*len(part.open.tickets)+spareTickets {
		tickets = nil
	}
	if cap(full) > spareFactor*len(part.open.full)+spareFull {
		full = nil
	}
	*b = *part.open
	*part.open = batch{tickets: tickets, full: full}
	part.queued = append(part.queued, b)
	part.open = nil
}

// begin opens a batch.
func (part *partition) begin() {
	part.open = &part.own
	part.own.part, part.own.baseOffset = part, -1
}

// head is the batch to send next, nil for none. It stays where it is.
func (part *partition) head() *batch {
	if len(part.queued) > 0 {
		return part.queued[0]
	}
	return part.open
}

// take moves the head from the queue to the batches in flight and gives it its place in the sequence, unless an
// earlier send already has.
func (part *partition) take(id identity) *batch {
	if len(part.queued) == 0 {
		part.seal()
	}
	b := part.queued[0]
	part.queued = slices.Delete(part.queued, 0, 1)
	part.pending -= b.size()
	part.usual = b.payload
	if !b.sequenced {
		if !part.begun {
			part.identity, part.begun = id, true
		}
		b.assign(part.identity, part.nextSequence)
		part.nextSequence = advance(part.nextSequence, b.records)
	}
	part.inflight = append(part.inflight, b)
	part.unanswered++
	return b
}

// answered takes the verdict over the oldest unanswered batch and reports whether the batch is complete. Answers
// come in order, so the first failure is always at the head of the line; what follows until the drain is over are
// its echoes (45 after a failed batch) or batches that will be sent again after the failed one, so that a
// repeat in the log is a contiguous rewind.
func (part *partition) answered(b *batch, v wire.Verdict) (complete bool) {
	part.unanswered--
	if v.Action == wire.Done {
		if part.inflight[0] != b {
			return false // after a failed batch
		}
		part.inflight = slices.Delete(part.inflight, 0, 1)
		part.attempt = 0
		if part.state == probing {
			part.state = normal
		}
		return true
	}
	if part.cause.Name == "" || part.cause == leaderMoved && v.Action != wire.Refresh {
		part.cause = v
	}
	part.state = draining
	return false
}

// drain stops the partition until nothing is unanswered.
func (part *partition) drain(cause wire.Verdict) {
	part.state = draining
	if part.cause.Name == "" {
		part.cause = cause
	}
}

// drained reports whether the partition waits for its rewind and may have it.
func (part *partition) drained() bool { return part.state == draining && part.unanswered == 0 }

// rewind puts the unacknowledged batches back in front of the queue, in sequence order, to be sent again unchanged. It
// returns why the partition drained. Calling it with a request still unanswered would let an old copy land
// after newer data.
func (part *partition) rewind() wire.Verdict {
	part.inflight = part.requeue(part.inflight)
	part.state = probing
	cause := part.cause
	part.cause = wire.Verdict{}
	return cause
}

// requeue puts batches back in front of the queue, in their order, and returns the list that held them, emptied.
func (part *partition) requeue(batches []*batch) []*batch {
	for _, b := range batches {
		part.pending += b.size()
	}
	part.queued = slices.Insert(part.queued, 0, batches...)
	clear(batches)
	return batches[:0]
}

// restart forgets the sequences handed out: the next batch begins a new one, under the producer's id and epoch of that
// moment. Nothing may be in flight.
func (part *partition) restart() {
	part.begun = false
	for _, b := range part.queued {
		b.sequenced = false
	}
	part.nextSequence = 0
	part.state = probing
}
