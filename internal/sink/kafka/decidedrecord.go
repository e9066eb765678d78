package kafka

import (
	"context"
	"hash/maphash"
	"math"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// decisions are what Config.Refused has decided about records of a topic, by fingerprint. They are carried out when the
// records are produced again, in the next session. A record whose decision is forgotten is refused, and decided about,
// once more.
type decisions struct {
	of    map[uint64]sink.Resolution
	bytes int // of the replacements
	last  time.Time
}

// Bounds of the decisions about the records of one topic.
const (
	mostDecided      = 10_000
	mostDecidedBytes = 32 << 20
	// decidedAge is for how long decisions are kept after the last one: until the source is past the records.
	decidedAge = 10 * time.Minute
)

var fingerprintSeed = maphash.MakeSeed()

// fingerprint distinguishes a record from others of its topic. Its time does not count: it may be renewed.
func fingerprint(rec *router.Record) uint64 {
	var h maphash.Hash
	h.SetSeed(fingerprintSeed)
	write := func(b []byte) {
		maphash.WriteComparable(&h, len(b))
		_, _ = h.Write(b)
	}
	write(rec.Key)
	write(rec.Value)
	for _, header := range rec.Headers {
		write([]byte(header.Key))
		write(header.Value)
	}
	return h.Sum64()
}

// decide remembers the resolution about a record of the topic.
func (t *topic) decide(rec *router.Record, r sink.Resolution) {
	d := t.decided
	if d == nil || len(d.of) == mostDecided || d.bytes > mostDecidedBytes {
		d = &decisions{of: map[uint64]sink.Resolution{}}
		t.decided = d
	}
	if r.Record != nil {
		d.bytes += r.Record.Size()
	}
	d.of[fingerprint(rec)], d.last = r, time.Now()
}

// forgetDecisions of long ago: each record of the topic is compared with them.
func (t *topic) forgetDecisions(now time.Time) {
	if t.decided != nil && now.Sub(t.decided.last) > decidedAge {
		t.decided = nil
	}
}

// taken is a record with the facts about it that its replacement takes over.
type taken struct {
	rec    *router.Record
	size   int // in the caller's window
	ticket uint64
	pos    sink.Position
}

// produceDecided carries out the decision about a record. It reports whether there is one.
func (p *Producer) produceDecided(ctx context.Context, t *topic, r taken) (decided bool, err error) {
	if t.decided == nil {
		return false, nil
	}
	d, found := t.decided.of[fingerprint(r.rec)]
	switch {
	case !found:
		return false, nil
	case d.Action == sink.Replace:
		instead := *d.Record
		instead.Tag = r.rec.Tag
		r.rec = &instead
		return true, p.produceInstead(ctx, r)
	}
	p.drop(t, r)
	return true, nil
}

// drop acknowledges the record: now, or with its transaction, whose position covers it.
func (p *Producer) drop(t *topic, r taken) {
	p.produced++
	b := newBatch(&partition{topic: t, index: max(r.rec.Partition, 0)})
	b.append(r.rec, r.ticket, math.MaxInt)
	b.window, b.tags = int64(r.size), nil // nothing of it is in the log
	if p.tx == nil {
		p.completed = append(p.completed, b)
		poke(p.acks)
		return
	}
	p.tx.include(r.size, r.pos)
	x := p.tx.filling
	b.tx = x
	x.dropped = append(x.dropped, b)
	x.acked++
}

// produceInstead produces a replacement. About that there may be a decision, too.
func (p *Producer) produceInstead(ctx context.Context, r taken) error {
	t := p.topicOf(r.rec)
	if decided, err := p.produceDecided(ctx, t, r); decided {
		return err
	}
	part, err := p.awaitTarget(ctx, t, r.rec)
	if err != nil {
		return err
	}
	p.produced++
	p.flushed = false
	if p.tx != nil {
		p.tx.add(part, r.size, r.pos)
	}
	p.put(part, r.rec, r.ticket)
	part.open.window += int64(r.size - r.rec.Size())
	p.send(part)
	return nil
}

// awaitTarget returns the partition for a replacement. It waits for the topic, and for a partition that does not exist.
func (p *Producer) awaitTarget(ctx context.Context, t *topic, rec *router.Record) (*partition, error) {
	t.waiters++
	defer func() { t.waiters-- }()
	for {
		if t.ready() {
			if part := t.choose(rec.Partition, rec.Key); part != nil {
				return part, nil
			}
			p.reportNoPartition(t, rec.Partition)
		}
		p.commit()
		if err := p.await(ctx); err != nil {
			return nil, err
		}
	}
}
