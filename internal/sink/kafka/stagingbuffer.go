package kafka

import (
	"sync"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// With thousands of partitions in use nothing of a partition is in the processor's cache when its next record comes,
// and the memory that a record touches there has to be fetched one after the other: the partition, then the end of its
// chunk. So records gather in the stage, encoded, in memory that is always in the cache. A few at a time they go on to
// their batches, and the memory that all of them touch is fetched at once.
//
// A goroutine that takes the producer's lock never sees the stage: Lock brings every record to its batch first. Only
// ProduceAt takes the mutex without that, to add to the stage.

const (
	// manyPartitions is how many partitions are in use where records are staged. What records for fewer touch fits
	// into the cache.
	manyPartitions = 2048
	// mostStaged is how many records gather. A processor fetches about as many lines at a time.
	mostStaged = 16
	// largestStaged is the Size of the largest record that is staged: the copy of a larger one costs more than it
	// saves.
	largestStaged = 2 << 10
)

// producerLock is the producer's lock. A goroutine that has it finds nothing staged.
type producerLock struct {
	sync.Mutex
	p *Producer
}

// Lock takes the lock and brings the staged records to their partitions.
func (l *producerLock) Lock() {
	l.Mutex.Lock()
	l.p.flushStage()
}

// stage holds records between ProduceAt and their batches. Guarded by the producer's lock.
type stage struct {
	records []staged
	bodies  []byte        // of the records: see appendBody
	pos     sink.Position // of the last record
	sink    int           // keeps the compiler from leaving out what only touches
}

// staged is a record in the stage.
type staged struct {
	topic     *topic
	part      *partition // set in flushStage
	index     int32      // of the partition
	timestamp int64
	ticket    uint64
	size      int // Record.Size()
	end       int // of the body in stage.bodies; it begins at the end of the body before
}

// stages reports whether the record can wait in the stage: it needs nothing but to be appended to the batch of its
// key's partition. What that depends on changes under the lock only, so it still holds in flushStage; but for the
// window of timestamps, which the first record of a batch moves on.
func (p *Producer) stages(t *topic, rec *router.Record, size int) bool {
	return p.inUse.Load() >= p.cfg.stageFrom && t.ready() && rec.Partition < 0 && rec.Key != nil && rec.Tag == nil &&
		t.times.keeps(rec.Timestamp) && size <= largestStaged && t.refused == nil &&
		!t.tight(rec, size)
}

// toStage takes the record into the stage.
func (p *Producer) toStage(t *topic, rec *router.Record, size int, ticket uint64, pos sink.Position) {
	s := &p.stage
	s.bodies = appendBody(s.bodies, rec)
	s.records = append(s.records, staged{
		topic: t, index: partitionOf(rec.Key, len(t.partitions)), timestamp: rec.Timestamp, ticket: ticket,
		size: size, end: len(s.bodies),
	})
	s.pos = pos
	if len(s.records) == mostStaged {
		p.flushStage()
	}
}

// flushStage brings the staged records to their partitions.
func (p *Producer) flushStage() {
	s := &p.stage
	if len(s.records) == 0 {
		return
	}
	for i := range s.records {
		r := &s.records[i]
		r.part = r.topic.partitions[r.index]
	}
	s.touch()
	from := 0
	for i := range s.records {
		r := &s.records[i]
		if p.tx != nil {
			p.tx.add(r.part, r.size, s.pos)
		}
		p.putBody(r, s.bodies[from:r.end])
		p.send(r.part)
		from = r.end
	}
	s.records, s.bodies = s.records[:0], s.bodies[:0]
}

// touch has the processor fetch what the staged records will change. The reads of a loop do not depend on each other,
// so it works on as many of them at a time as it can.
func (s *stage) touch() {
	const line = 64
	sum := 0
	for i := range s.records {
		part := s.records[i].part
		sum += part.pending + len(part.own.tail) + int(part.own.records)
	}
	from := 0
	for i := range s.records {
		r := &s.records[i]
		b := &r.part.own
		room := b.tail[len(b.tail):cap(b.tail)]
		for at := 0; at < min(len(room), r.end-from); at += line {
			sum += int(room[at])
		}
		if n := len(b.tickets); n < cap(b.tickets) {
			sum += int(b.tickets[:n+1][n])
		}
		from = r.end
	}
	s.sink = sum
}

// putBody appends an encoded record to its partition's open batch.
func (p *Producer) putBody(r *staged, body []byte) {
	part, n := r.part, 0
	if part.open != nil {
		n = part.open.appendBody(body, r.timestamp, r.ticket, r.topic.limit)
	}
	if n == 0 {
		p.rollBatch(part)
		n = wire.HeaderSize + part.open.appendBody(body, r.timestamp, r.ticket, r.topic.limit)
	}
	part.open.window += int64(r.size)
	part.pending += n
}
