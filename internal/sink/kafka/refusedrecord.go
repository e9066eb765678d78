package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// refused is a record, alone in the batch at the head of its partition's queue, that Config.Refused has to decide
// about.
type refused struct {
	batch *batch
	cause wire.Verdict
	at    time.Time
}

// refuse asks Config.Refused about the record at the head of the queue. The partition sends nothing until it has an
// answer.
func (p *Producer) refuse(part *partition, cause wire.Verdict) {
	if p.cfg.Refused == nil {
		p.postpone(part, cause, p.cfg.pace.slowly())
		return
	}
	part.refused = &refused{part.queued[0], cause, time.Now()}
	part.attempt++
	p.report(part, cause)
	p.unready(part)
	if cause.Trouble == wire.RecordTooLarge {
		part.topic.described = false // the broker applied another limit than the known one
		p.wantMetadata()
	}
	p.refusals = append(p.refusals, part)
	poke(p.asks)
}

// runRefusals asks about one refused record after the other, until ctx ends.
func (p *Producer) runRefusals(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ctx.Err() == nil {
		if len(p.refusals) == 0 {
			p.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-p.asks:
			}
			p.mu.Lock()
			continue
		}
		part := p.refusals[0]
		p.refusals = slices.Delete(p.refusals, 0, 1)
		if err := p.decide(ctx, part); err != nil && ctx.Err() == nil && p.ended == nil {
			p.fail(&fault.Error{
				Object: fmt.Sprintf("partition %s", part), Err: fmt.Errorf("a refused record: %w", err),
				Next: "This is a bug; please report it.",
			})
		}
	}
}

// decide asks about the partition's refused record and carries out the answer. It gives up the lock meanwhile; the
// record stays, because a partition's batches are not sent while one of them is refused.
func (p *Producer) decide(ctx context.Context, part *partition) error {
	refused := part.refused
	if refused.cause.Trouble == wire.RecordTooLarge {
		p.awaitLimit(ctx, part.topic, refused.at)
	}
	if part.refused != refused {
		return nil // given up meanwhile
	}
	question, err := refused.refusal()
	if err != nil {
		return err
	}
	p.mu.Unlock()
	answer := p.cfg.Refused(question)
	p.mu.Lock()

	if part.refused != refused {
		return nil
	}
	var target *partition
	switch answer.Action {
	case Drop:
	case Replace:
		if answer.Record == nil {
			return errors.New("resolution Replace without a record")
		}
		if target, err = p.target(ctx, answer.Record); err != nil {
			return err
		}
		if part.refused != refused {
			return nil
		}
	default:
		part.refused = nil
		p.postpone(part, refused.cause, p.cfg.pace.slowly())
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err() // a refusal that was not decided is not logged
	}
	p.remove(part, target, answer.Record)
	return nil
}

// awaitLimit waits for the topic's limit as it is now, but not for long: it is for the question only.
func (p *Producer) awaitLimit(ctx context.Context, t *topic, since time.Time) {
	ctx, cancel := context.WithTimeout(ctx, p.control.timeout)
	defer cancel()
	for t.describedAt.Before(since) {
		if p.await(ctx) != nil {
			return
		}
	}
}

// target returns the partition for a replacement. It waits for the topic, but not for one whose partitions are being
// added to, as Produce does: that could be waiting for the refused record's transaction.
func (p *Producer) target(ctx context.Context, rec *router.Record) (*partition, error) {
	t := p.topic(rec.Topic)
	t.waiters++
	defer func() { t.waiters-- }()
	for {
		if len(t.partitions) > 0 {
			if part := t.choose(rec.Partition, rec.Key); part != nil {
				return part, nil
			}
			p.reportNoPartition(t, rec.Partition)
		}
		if err := p.await(ctx); err != nil {
			return nil, err
		}
	}
}

// remove takes the refused record out of its partition and puts the replacement, if there is a target for one, at the
// end of the target's.
//
// Nothing can be lost or doubled by that. Everything older of the partition is acknowledged, for the record is at the
// head of the line. The record itself was refused before anything of its batch was written. And nothing newer is in the
// log: the broker answers it with 45 as long as the record's sequence number is missing, and every answer is in, or the
// partition would not have rewound. So what is behind the gap may be renumbered, in idempotent mode with a new epoch
// for this partition, so that a copy of an old number, still under way on a connection that broke, is refused. With
// transactions the live one is aborted, and sent again without the record.
//
// The exception is a record that was appended without an answer before the topic's limit was lowered, the broker looks
// at the size before it looks for repeats: then it is in the log although it was replaced, and what was appended after
// it is appended a second time, as it does when the broker has lost the producer's state. With transactions not even
// that.
func (p *Producer) remove(part, target *partition, rec *router.Record) {
	b, cause := part.refused.batch, part.refused.cause
	fields := []zap.Field{
		zap.String(logkey.Topic, part.topic.name), zap.Int32(logkey.Partition, part.index),
		zap.String(logkey.Cause, cause.Name),
		zap.Int(logkey.Bytes, b.size()), zap.Uint64(logkey.Ticket, b.tickets[0]),
	}
	part.refused = nil
	part.attempt = 0
	part.trouble.resolve(&p.troubles)
	p.unready(part)
	at := slices.Index(part.queued, b) // not the first, where an aborted transaction's are in front again
	part.queued = slices.Delete(part.queued, at, at+1)
	part.pending -= b.size()

	switch {
	case part == part.topic.unplaced: // nothing of it was sent
		if b.tx != nil {
			b.tx.unplaced--
		}
	case p.tx != nil:
		p.lose(cause)
	default:
		p.bump(part, false) // before the replacement, which may be for the same partition, sends anything
	}
	if target != nil {
		p.log.Warn("a record that kafka refuses was replaced",
			append(fields, zap.String(logkey.ByTopic, target.topic.name))...)
		p.replace(b, target, rec)
	} else {
		p.log.Warn("a record that kafka refuses was dropped", fields...)
		p.drop(b)
	}
	if part.topic.more > 0 {
		p.announce() // it may be quiet now
	}
	if part == part.topic.unplaced {
		p.placeAll(part.topic)
		p.pumpAll()
	}
}

// drop acknowledges the record: now, or with its transaction, whose position covers it.
func (p *Producer) drop(b *batch) {
	b.tags = nil // their records are not in the log
	if b.tx != nil {
		b.tx.dropped = append(b.tx.dropped, b)
		b.tx.acked++
		return
	}
	p.completed = append(p.completed, b)
	poke(p.acks)
}

// replace queues the replacement with the ticket of the refused record, and its size in the caller's window.
func (p *Producer) replace(old *batch, target *partition, rec *router.Record) {
	b := newBatch(target)
	b.tx = old.tx
	b.made = time.Now().UnixMilli()
	b.append(rec, old.tickets[0], target.topic.limit)
	b.window, b.tags = old.window, old.tags
	unplaced := old.part == old.part.topic.unplaced
	old.free()

	target.seal()
	at := len(target.queued)
	if b.tx != nil { // before what belongs to the next transaction, or each transaction would wait for the other
		if unplaced {
			p.tx.enter(b.tx, target)
		} else {
			p.tx.join(b.tx, target)
		}
		if next := slices.IndexFunc(target.queued, func(q *batch) bool { return q.tx != b.tx }); next >= 0 {
			at = next
		}
	}
	target.queued = slices.Insert(target.queued, at, b)
	target.pending += b.size()
	if target.broker == nil {
		p.wantMetadata()
	}
	p.unready(target)
	p.refresh(target)
	if target.broker != nil {
		p.pump(target.broker)
	}
}

// join makes the partition one of the transaction's, which is about to be sent again.
func (x *transactions) join(t *transaction, part *partition) {
	if slices.Contains(t.parts, part) {
		return
	}
	t.parts = append(t.parts, part)
	if t == x.filling {
		part.filling = t
	}
}

// refusal is the question about the record.
func (r *refused) refusal() (Refusal, error) {
	b := r.batch
	data, err := b.expand()
	if err != nil {
		return Refusal{}, err
	}
	raw, _, err := nextRecord(data)
	if err != nil {
		return Refusal{}, err
	}
	rec, err := raw.decode()
	if err != nil {
		return Refusal{}, err
	}
	rec.Timestamp = b.firstTimestamp + raw.timestampDelta
	takeOriginal(&rec)
	q := Refusal{
		Ticket: b.tickets[0], Topic: b.part.topic.name, Partition: b.part.index,
		Key: rec.Key, Value: rec.Value, Headers: rec.Headers, Timestamp: rec.Timestamp,
		Reason: InvalidRecord, Words: b.words,
	}
	switch r.cause.Trouble {
	case wire.RecordTooLarge:
		q.Reason, q.Bytes, q.Limit = TooLarge, b.size(), b.part.topic.max
	case wire.TopicMissing:
		q.Reason = NoPartition
	}
	if r.cause == illegalName {
		q.Reason = IllegalTopic
	}
	return q, nil
}

// decode returns key, value and headers of the record. They lie in the memory that it was taken from.
func (r rawRecord) decode() (rec router.Record, err error) {
	c := wire.NewCursor(r.rest)
	rec.Key, rec.Value = c.Nullable(), c.Nullable()
	for n := c.Varint(); n > 0 && !c.Bad; n-- {
		key := string(c.Bytes(int(c.Varint())))
		rec.Headers = append(rec.Headers, router.Header{Key: key, Value: c.Nullable()})
	}
	return rec, c.Err()
}
