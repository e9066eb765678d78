package kafka

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// responder returns the function that the broker's connection calls for each answer.
func (p *Producer) responder(b *broker) func(*request, *wire.ProduceAnswer) error {
	return func(r *request, res *wire.ProduceAnswer) error {
		p.metrics.requestSeconds.Observe(time.Since(r.sentAt).Seconds())
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.answer(b, r, res)
	}
}

// answer takes the answer to the oldest request in flight. An answer that does not name every batch is an error,
// which ends the connection and so resolves them all as lost.
func (p *Producer) answer(b *broker, r *request, res *wire.ProduceAnswer) error {
	codes, err := r.match(res, p.topics)
	if err != nil {
		return err
	}
	if r.generation != p.generation {
		return errAbandoned
	}
	copy(b.inflight, b.inflight[1:])
	b.inflight[len(b.inflight)-1] = nil
	b.inflight = b.inflight[:len(b.inflight)-1]
	p.flying--
	p.metrics.inFlight.Dec()
	b.attempt = 0
	b.trouble.resolve(&p.troubles)
	if b.conn != nil {
		b.conn.silence = nil
	}
	p.throttle(b, r.version, res.Throttle)
	parts := p.touched[:0] // a batch is recycled once it is complete
	for i, batch := range r.batches {
		parts = append(parts, batch.part)
		p.resolve(batch, wire.VerdictOf(codes[i]))
	}
	p.touched = parts
	p.proceed(b, parts)
	return nil
}

// proceed sends the batches that the answers have made possible to send: on their broker, and on others that lead the
// partitions by now.
func (p *Producer) proceed(b *broker, parts []*partition) {
	p.pump(b)
	for _, part := range parts {
		if part.broker != nil && part.broker != b {
			p.pump(part.broker)
		}
	}
}

// resolve takes the verdict over one batch: it is complete, or its partition drains and, as soon as nothing of it
// is unanswered any more, rewinds.
func (p *Producer) resolve(b *batch, v wire.Verdict) {
	part := b.part
	if v.Action != wire.Done {
		p.metrics.retries.WithLabelValues(v.Name).Inc()
	}
	if part.answered(b, v) {
		part.lastAck = time.Now()
		part.trouble.resolve(&p.troubles)
		part.lacking = time.Time{}
		p.cfg.noteEnd(b)
		p.complete(b)
	}
	if part.drained() {
		p.rewind(part)
	}
	part.refresh()
}

// rewind is the one recovery within a session: everything unacknowledged of the partition goes back in front of its
// queue with its sequence numbers. Further steps depend on the cause. The caller refreshes the partition.
func (p *Producer) rewind(part *partition) {
	part.unready()
	again := len(part.inflight)
	cause := part.rewind()
	if cause == leaderMoved && again == 0 {
		return
	}
	p.metrics.rewinds.Inc()
	p.log.Debug("rewind partition", zap.Stringer(logkey.Partition, part), zap.String(logkey.Cause, cause.Name),
		zap.Int(logkey.Batches, again), zap.Int(logkey.Attempt, part.attempt))
	if part.broker == nil {
		p.control.wantMetadata() // while the batches flew nothing waited for a leader, so the clock has it at leisure
	}

	switch {
	case p.tx != nil && (cause.Action == wire.Bump || cause.Action == wire.Renew || cause.Action == wire.Fenced):
		p.lose(part.object(), cause)
	case p.own.fences() && (cause.Action == wire.Fenced || cause.Code == wire.InvalidProducerEpoch):
		p.outranked(part, cause)
	default:
		p.recoverFrom(part, cause, again)
	}
}

// recoverFrom takes the further steps that the cause of a rewind calls for. again is how many batches were in flight.
func (p *Producer) recoverFrom(part *partition, cause wire.Verdict, again int) {
	switch cause.Action {
	case wire.Done: // the leader moved: go on there
	case wire.Refresh:
		p.control.wantMetadata()
		switch {
		case cause != connectionLost:
			p.postpone(part, cause, p.cfg.pace.delay(part.attempt))
		case again > 0 && part.queued[0].size() > socketRequestMax:
			p.postpone(part, wire.VerdictOf(wire.MessageTooLarge), p.cfg.pace.slowly())
		default: // serve paces the retries
		}
	case wire.Rewind:
		delay := p.cfg.pace.delay(part.attempt)
		if cause.Code == wire.CorruptMessage && part.attempt > 0 {
			delay = p.cfg.pace.slowly() // once may be a bit flipped in transit
		}
		p.postpone(part, cause, delay)
	case wire.Split:
		p.split(part, cause)
	case wire.Bump, wire.Renew:
		p.lose(part.object(), cause)
	case wire.Mute:
		p.postpone(part, cause, p.cfg.pace.slowly())
	case wire.Fenced:
		p.fail(&fault.Error{
			Kind: fault.Operator, Object: "producer", Err: fmt.Errorf("%s from %s", cause.Name, part),
			Next: "Another instance with the same identity took over. Make sure that only one runs.",
		})
	}
}

// socketRequestMax is the brokers' default of socket.request.max.bytes. They close the connection on a larger request
// instead of answering it.
const socketRequestMax = 100 << 20

// postpone lets the partition wait before it sends again, and reports why.
func (p *Producer) postpone(part *partition, cause wire.Verdict, delay time.Duration) {
	part.attempt++
	part.waiting, part.retryAt = true, time.Now().Add(delay)
	p.report(part, cause)
	part.unready()
	p.waiting[part] = struct{}{}
	p.clock.wake()
}

// resume ends the partition's wait.
func (p *Producer) resume(part *partition) {
	if !part.waiting {
		return
	}
	part.waiting = false
	delete(p.waiting, part)
	part.refresh()
	if part.broker != nil {
		p.pump(part.broker)
	}
}

// connectionLost is the verdict over every batch whose answer a broken connection took along: it may or may not have
// been appended, and maybe its broker is no longer the leader.
var connectionLost = wire.Verdict{Code: -2, Name: "CONNECTION_LOST", Action: wire.Refresh, Trouble: ""}

// leaderMoved drains a partition whose leader is another broker according to fresh metadata. Nothing has failed.
var leaderMoved = wire.Verdict{Code: -3, Name: "LEADER_MOVED", Action: wire.Done, Trouble: ""}
