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
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
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
	if cause.Trouble == sink.RecordTooLarge {
		part.topic.described = false // the broker applied another limit than the known one
		p.wantMetadata()
	}
	p.refusals = append(p.refusals, part)
	poke(p.asks)
}

// runRefusals asks about one refused record after the other, until ctx ends. After decisions to leave records out the
// session ends: the records after them need other numbers.
func (p *Producer) runRefusals(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ctx.Err() == nil {
		if len(p.refusals) == 0 {
			if p.leavesOut != "" {
				p.giveUp(p.leavesOut, "a record that Kafka refuses is left out")
			}
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

// decide asks about the partition's refused record and remembers the answer for the time when the record is produced
// again. It gives up the lock meanwhile; the record stays, because a partition's batches are not sent while one of them
// is refused.
func (p *Producer) decide(ctx context.Context, part *partition) error {
	refused := part.refused
	if refused.cause.Trouble == sink.RecordTooLarge {
		p.awaitLimit(ctx, part.topic, refused.at)
	}
	if part.refused != refused {
		return nil // given up meanwhile
	}
	question, err := refused.refusal()
	if err != nil {
		return err
	}
	size := refused.batch.size()
	p.mu.Unlock()
	answer := p.cfg.Refused(question)
	p.mu.Lock()

	still := part.refused == refused
	switch {
	case answer.Action == sink.Hold && still:
		part.refused = nil
		p.postpone(part, refused.cause, p.cfg.pace.slowly())
		return nil
	case answer.Action == sink.Hold:
		return nil
	case answer.Action == sink.Replace && answer.Record == nil:
		return errors.New("resolution Replace without a record")
	case ctx.Err() != nil:
		return ctx.Err() // a refusal that was not decided is not logged
	}
	fields := []zap.Field{
		zap.String(logkey.Topic, question.Topic), zap.Int32(logkey.Partition, question.Partition),
		zap.String(logkey.Cause, refused.cause.Name), zap.Int(logkey.Bytes, size),
		zap.Uint64(logkey.Ticket, question.Ticket),
	}
	if answer.Action == sink.Replace {
		p.log.Warn("a record that kafka refuses is replaced",
			append(fields, zap.String(logkey.ByTopic, answer.Record.Topic))...)
	} else {
		p.log.Warn("a record that kafka refuses is dropped", fields...)
	}
	part.topic.decide(question.Record(), answer)
	if still {
		p.leavesOut = part.object()
	}
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

// refusal is the question about the record.
func (r *refused) refusal() (sink.Refusal, error) {
	b := r.batch
	data, err := b.expand()
	if err != nil {
		return sink.Refusal{}, err
	}
	raw, _, err := nextRecord(data)
	if err != nil {
		return sink.Refusal{}, err
	}
	rec, err := raw.decode()
	if err != nil {
		return sink.Refusal{}, err
	}
	rec.Timestamp = b.firstTimestamp + raw.timestampDelta
	takeOriginal(&rec)
	q := sink.Refusal{
		Ticket: b.tickets[0], Topic: b.part.topic.name, Partition: b.part.index,
		Key: rec.Key, Value: rec.Value, Headers: rec.Headers, Timestamp: rec.Timestamp,
		Reason: sink.InvalidRecord, Words: b.words,
	}
	switch r.cause.Trouble {
	case sink.RecordTooLarge:
		q.Reason, q.Bytes, q.Limit = sink.TooLarge, b.size(), b.part.topic.max
	case sink.TopicMissing:
		q.Reason = sink.NoPartition
	}
	if r.cause == illegalName {
		q.Reason = sink.IllegalTopic
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
