package kafka

import (
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// A topic can be deleted and re-created with fewer partitions. Records that wait for a partition that no longer exists
// then go to the partition that their key has now; see topic.adopt for the order of later records.

// fewerAnswers is how many answers in a row, over pace.slow at least, must name fewer partitions. A broker that has not
// heard of added partitions yet answers the same, and to believe it would be to send records twice, in two partitions.
// Every fifth answer is another broker's (planMetadata).
const fewerAnswers = 11

// partitionGone is why records of a partition that no longer exists are not sent.
var partitionGone = wire.Verdict{Code: -4, Name: "PARTITION_GONE", Action: wire.Rewind, Trouble: wire.TopicMissing}

// shrink takes an answer that names fewer partitions than are in use.
func (p *Producer) shrink(t *topic, n int) {
	for _, part := range t.partitions[n:] {
		p.lead(part, nil, part.leaderEpoch)
		p.reportGone(part, n)
	}
	if t.fewerSeen == 0 {
		t.fewerAt = time.Now()
	}
	if t.fewerSeen++; t.fewerSeen < fewerAnswers || time.Since(t.fewerAt) < p.cfg.pace.slow {
		return
	}
	if t.fewer != n {
		p.log.Warn("topic was re-created with fewer partitions; waiting records are sent to the remaining partitions",
			zap.String(logkey.Topic, t.name), zap.Int(logkey.Before, len(t.partitions)), zap.Int(logkey.Now, n))
	}
	t.fewer = n
	if p.tx != nil && slices.ContainsFunc(t.partitions[n:], (*partition).strands) {
		p.lose(partitionGone) // restartAll repartitions, when nothing is under way in Kafka any more
		return
	}
	p.repartition(t)
}

// repartition empties the partitions that no longer exist, as soon as nothing of them is in flight. It is called again
// with each metadata answer until the topic has settled.
func (p *Producer) repartition(t *topic) {
	if t.fewer == 0 {
		return
	}
	for _, part := range t.partitions[t.fewer:] {
		if part.unanswered > 0 || part.refused != nil || part.waiting {
			continue
		}
		part.seal()
		part.inflight = part.requeue(part.inflight)
		if err := p.moveAll(part); err != nil {
			p.unreadable(part, part.pending, err)
			return
		}
	}
	t.dropRemovedPartitions()
	p.placeAll(t)
	p.announce()
}

// strands reports whether records of the partition wait, and no decision about one of them.
func (part *partition) strands() bool {
	return (part.open != nil || len(part.queued)+len(part.inflight)+len(part.held) > 0) && part.refused == nil &&
		!part.waiting
}

// dropRemovedPartitions forgets the partitions that no longer exist, when everything older is acknowledged.
func (t *topic) dropRemovedPartitions() {
	if t.fewer > 0 && t.calm() && !slices.ContainsFunc(t.partitions[t.fewer:], (*partition).busy) {
		t.partitions = slices.Clip(t.partitions[:t.fewer])
		t.fewer, t.fewerSeen = 0, 0
	}
}

// moveAll moves the batches of a partition, in their order, up to a record that names the partition itself: that is for
// Config.Refused.
func (p *Producer) moveAll(part *partition) error {
	for len(part.queued) > 0 {
		b := part.queued[0]
		moved, stray, rest, err := b.scatter(part.topic)
		if err != nil {
			return err
		}
		part.queued = slices.Delete(part.queued, 0, 1)
		part.pending -= b.size()
		for _, m := range moved {
			p.enqueue(m)
		}
		for _, left := range []*batch{rest, stray} {
			if left != nil {
				part.queued = slices.Insert(part.queued, 0, left)
				part.pending += left.size()
			}
		}
		b.free()
		if stray != nil {
			p.refuse(part, partitionGone)
			return nil
		}
	}
	delete(p.waiting, part)
	part.waiting = false
	part.trouble.resolve(&p.troubles)
	part.restart()
	if p.tx != nil {
		p.tx.leave(part)
	}
	return nil
}

// scatter makes batches of the records for the partitions that they belong to now, up to the first record that names
// its partition. That record and the rest stay, in two batches. b is unchanged.
func (b *batch) scatter(t *topic) (moved []*batch, stray, rest *batch, err error) {
	data, err := b.expand()
	if err != nil {
		return nil, nil, nil, err
	}
	at := map[int32]*batch{}
	tags, window := b.tags, b.window
	var last *batch
	for i, ticket := range b.tickets {
		var raw rawRecord
		var rec router.Record
		if raw, data, err = nextRecord(data); err == nil {
			rec, err = raw.decode()
		}
		if err != nil {
			return nil, nil, nil, err
		}
		rec.Timestamp = b.firstTimestamp + raw.timestampDelta
		if len(tags) > 0 && tags[0].Record == int32(i) {
			rec.Tag, tags = tags[0].Tag, tags[1:]
		}
		switch index, ok := b.moves(t, rec.Key); {
		case stray != nil:
			if rest == nil {
				rest = b.sibling(b.part)
			}
			last = rest
		case !ok:
			stray = b.sibling(b.part)
			last = stray
		default:
			if last = at[index]; last == nil {
				last = b.sibling(t.partitions[index])
				at[index], moved = last, append(moved, last)
			}
		}
		last.append(&rec, ticket, math.MaxInt)
		window -= int64(rec.Size())
	}
	last.window += window // a header of our own does not count
	return moved, stray, rest, nil
}

// sibling is an empty batch of the same age and transaction.
func (b *batch) sibling(part *partition) *batch {
	s := newBatch(part)
	s.tx, s.made = b.tx, b.made
	return s
}

// moves is the new partition of a record whose partition no longer exists; false where the record named its partition
// itself.
func (b *batch) moves(t *topic, key []byte) (int32, bool) {
	if key == nil {
		return b.part.index % int32(t.fewer), true
	}
	return partitionOf(key, t.fewer), partitionOf(key, len(t.partitions)) == b.part.index
}

// enqueue puts a batch at the end of its partition's queue, before the batches of the next transaction.
func (p *Producer) enqueue(b *batch) {
	target := b.part
	target.seal()
	at := len(target.queued)
	if b.tx != nil {
		p.tx.enter(b.tx, target)
		if next := slices.IndexFunc(target.queued, func(q *batch) bool { return q.tx != b.tx }); next >= 0 &&
			b.tx == p.tx.live {
			at = next
		}
	}
	p.unready(target)
	target.queued = slices.Insert(target.queued, at, b)
	target.pending += b.size()
	if target.broker == nil {
		p.wantMetadata()
	}
	p.refresh(target)
	if target.broker != nil {
		p.pump(target.broker)
	}
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

// leave takes a partition that no longer exists out of the transactions.
func (x *transactions) leave(part *partition) {
	for _, t := range []*transaction{x.live, x.filling} {
		same := func(o *partition) bool { return o == part }
		t.parts, t.unadded = slices.DeleteFunc(t.parts, same), slices.DeleteFunc(t.unadded, same)
	}
	part.filling, part.registered, part.entered = nil, nil, nil
}
