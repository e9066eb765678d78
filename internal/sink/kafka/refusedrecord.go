package kafka

import (
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// refuse ends the session at the record, alone in the batch at the head of the queue, that a broker refuses. When it is
// produced again, ProduceAt returns the refusal.
func (p *Producer) refuse(part *partition, cause wire.Verdict) {
	b := part.queued[0]
	rec, err := b.only()
	if err != nil {
		p.unreadable(part, b.size(), err)
		return
	}
	part.topic.remember(&rec, p.cfg.refusalOf(part, cause))
	// The settings are not what they were when they were asked for last.
	part.topic.described, part.topic.describedAt = false, time.Time{}
	p.leaveOut(part, cause.Name)
}

// leaveOut ends the session at a record that cannot be written: the records after it need other numbers.
func (p *Producer) leaveOut(part *partition, cause string) {
	p.giveUp(part.object(), cause+", a record that Kafka refuses")
}

func (c *Config) refusalOf(part *partition, cause wire.Verdict) sink.RefusedError {
	t, b := part.topic, part.queued[0]
	if cause.Trouble == sink.RecordTooLarge {
		return sink.RefusedError{
			Topic: t.name, Reason: sink.TooLarge, Bytes: b.size(), Limit: t.max,
			Remedy: fault.Do("", c.RaiseLimit(t.name, b.size())),
		}
	}
	sentence, remedy := c.rejected(part, cause)
	return sink.RefusedError{Topic: t.name, Reason: sink.InvalidRecord, Sentence: sentence, Remedy: remedy}
}

// only returns the record of a batch that has one, as it was produced.
func (b *batch) only() (router.Record, error) {
	data, err := b.expand()
	if err != nil {
		return router.Record{}, err
	}
	raw, _, err := nextRecord(data)
	if err != nil {
		return router.Record{}, err
	}
	rec, err := raw.decode()
	if err != nil {
		return rec, err
	}
	rec.Timestamp = b.firstTimestamp + raw.timestampDelta
	takeOriginal(&rec)
	return rec, nil
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
