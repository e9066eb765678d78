package kafka

import (
	"math"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// A topic that was not met before has no partitions until the next metadata answer. Produce does not wait for it: the
// records go to the topic's unplaced queue, in order, and from there to their partitions when these are known. Until
// the queue is empty every newer record of the topic joins its end, so that no record overtakes an older one of its
// key. All topics met during one metadata request are asked for by the next.
//
// The timestamp of an unplaced record is its own: the topic's bounds are not known yet.
//
// With transactions an unplaced record never joins a transaction with placed records before it. Those would wait for a
// topic that may be missing, in a transaction that is open in Kafka. So everything older is committed first, and a
// transaction with unplaced records is not begun in Kafka, see nextTransactionStep.

// largestUnplaced is the largest record that is taken without knowing its topic. A larger record may be too large for
// the topic, and Produce refuses it at once when the limit is known: the reader then halts at its row. A topic with a
// smaller limit refuses a record after it was taken, and the session ends.
const largestUnplaced = 64 << 10

// defers reports whether the record joins the topic's unplaced queue.
func (t *topic) defers(rec *router.Record, c *Config, x *transactions) bool {
	if c.AwaitTopics || len(t.partitions) > 0 && t.unplaced == nil || rec.Size() > largestUnplaced {
		return false
	}
	return x == nil || x.filling.records == 0 || x.filling.unplaced > 0
}

// stow puts the record at the end of the topic's unplaced queue.
func (t *topic) stow(rec *router.Record, ticket uint64, pos sink.Position, x *transactions) {
	u := t.unplaced
	if u == nil {
		u = &partition{topic: t, index: -1}
		t.unplaced = u
	}
	var tx *transaction
	if x != nil {
		x.include(rec.Size(), pos)
		tx = x.filling
		tx.unplaced++
	}
	n := 0
	if u.open != nil {
		if u.open.tx == tx {
			n = u.open.append(rec, ticket, t.limit)
		}
		if n == 0 {
			u.seal()
		}
	}
	if u.open == nil {
		u.begin()
		u.open.tx, u.open.made = tx, time.Now().UnixMilli()
		n = wire.HeaderSize + u.open.append(rec, ticket, t.limit)
	}
	u.open.named = append(u.open.named, rec.Partition)
	u.pending += n
}

// placeAll moves the topic's unplaced records to their partitions, up to a record that names a partition that the topic
// does not have, or whose topic cannot be created: the session ends there, and ProduceAt refuses it.
func (p *Producer) placeAll(t *topic) {
	u := t.unplaced
	if u == nil || t.more > 0 {
		return
	}
	if len(t.partitions) == 0 && t.nameRefused(p.cfg.pace.slow) == nil {
		return
	}
	u.seal()
	for len(u.queued) > 0 {
		b := u.queued[0]
		placed, err := p.deal(b)
		var stray, rest *batch
		if err == nil && placed < len(b.tickets) {
			stray, rest, err = b.beyond(placed)
		}
		if err != nil {
			p.unreadable(u, b.size(), err)
			return
		}
		u.queued = slices.Delete(u.queued, 0, 1)
		u.pending -= b.size()
		b.free()
		for _, left := range []*batch{rest, stray} {
			if left != nil {
				u.queued = slices.Insert(u.queued, 0, left)
				u.pending += left.size()
			}
		}
		if stray != nil {
			cause := "NO_SUCH_PARTITION"
			if u.index = stray.named[0]; len(t.partitions) == 0 {
				u.index, cause = -1, "ILLEGAL_NAME"
			}
			p.leaveOut(u, cause)
			break
		}
	}
	if len(u.queued) == 0 {
		t.unplaced = nil
		p.announce()
	}
	if p.tx != nil {
		p.tx.placed(t)
	}
}

// deal puts the records of an unplaced batch into the batches of their partitions, up to the first record that has no
// partition, and returns how many. b is unchanged.
func (p *Producer) deal(b *batch) (placed int, err error) {
	if len(b.part.topic.partitions) == 0 {
		return 0, nil
	}
	data, err := b.expand()
	if err != nil {
		return 0, err
	}
	tags := b.tags
	for i := range b.tickets {
		var rec router.Record
		if rec, data, err = b.next(i, data); err != nil {
			return i, err
		}
		if len(tags) > 0 && tags[0].Record == int32(i) {
			rec.Tag, tags = tags[0].Tag, tags[1:]
		}
		part := b.part.topic.choose(rec.Partition, rec.Key)
		if part == nil {
			return i, nil
		}
		p.hand(part, &rec, b.tickets[i], b.tx)
	}
	return len(b.tickets), nil
}

// next takes record i of an unplaced batch off data.
func (b *batch) next(i int, data []byte) (rec router.Record, rest []byte, err error) {
	raw, rest, err := nextRecord(data)
	if err != nil {
		return rec, nil, err
	}
	if rec, err = raw.decode(); err != nil {
		return rec, nil, err
	}
	rec.Partition, rec.Timestamp = b.named[i], b.firstTimestamp+raw.timestampDelta
	return rec, rest, nil
}

// hand appends a record that was unplaced to its partition, as part of its transaction.
func (p *Producer) hand(part *partition, rec *router.Record, ticket uint64, tx *transaction) {
	if part.open != nil && part.open.tx != tx {
		part.seal()
	}
	p.put(part, rec, ticket)
	if tx != nil {
		part.open.tx = tx
		tx.unplaced--
		if part.filling != tx {
			p.tx.enter(tx, part)
			if part.filling != p.tx.filling {
				part.filling = tx
			}
		}
	}
	if !part.isReady {
		part.refresh()
	}
	if part.isReady {
		part.broker.count(part)
	}
}

// placed closes what a sealed transaction has open in the topic, for the next record is another transaction's.
func (x *transactions) placed(t *topic) {
	for _, part := range t.partitions {
		if part.open != nil && part.open.tx != x.filling {
			part.seal()
		}
	}
	poke(x.wake)
}

// beyond returns record i of an unplaced batch and what comes after it, nil for nothing, as two batches. b is
// unchanged.
func (b *batch) beyond(i int) (stray, rest *batch, err error) {
	data, err := b.expand()
	if err != nil {
		return nil, nil, err
	}
	tags := b.tags
	for at, ticket := range b.tickets {
		var rec router.Record
		if rec, data, err = b.next(at, data); err != nil {
			return nil, nil, err
		}
		if len(tags) > 0 && tags[0].Record == int32(at) {
			rec.Tag, tags = tags[0].Tag, tags[1:]
		}
		to := &rest
		switch {
		case at < i:
			continue
		case at == i:
			to = &stray
		}
		if *to == nil {
			*to = b.sibling(b.part)
		}
		(*to).append(&rec, ticket, math.MaxInt)
		(*to).named = append((*to).named, rec.Partition)
	}
	return stray, rest, nil
}

// sibling is an empty batch of the same age and transaction.
func (b *batch) sibling(part *partition) *batch {
	s := newBatch(part)
	s.tx, s.made = b.tx, b.made
	return s
}

// enter makes the partition one of the transaction's.
func (x *transactions) enter(t *transaction, part *partition) {
	if slices.Contains(t.parts, part) {
		return
	}
	t.parts, t.unadded = append(t.parts, part), append(t.unadded, part)
	if t == x.filling {
		part.filling = t
	}
	if t == x.live {
		poke(x.wake)
	}
}
