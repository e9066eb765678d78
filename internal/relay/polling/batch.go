package polling

import (
	"sync"
	"time"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// batch holds the rows that one claim has read. Rows are in the order of lane, then sequence. The worker fills and
// feeds it; the producer's goroutine reports acknowledgements.
type batch struct {
	relation *pgoutput.Relation
	width    int
	values   []pgoutput.Value // of all rows, width each
	arena    []byte           // the bytes that they point to

	rows []batchRow
	next int // the first row that was not dealt with

	mu      sync.Mutex
	flying  int           // rows with the producer
	moved   time.Time     // when a row last left or came back; while flying is not 0
	stuck   time.Time     // since when a row cannot be handed over; zero while none waits
	changed chan struct{} // capacity 1: a row was acknowledged
}

type batchRow struct {
	lane  int
	seq   int64
	part  []byte // the partition's OID and the version's address there, as text in the batch's arena
	tid   []byte
	state rowState
	at    int64 // of the record, in milliseconds since 1970
}

type rowState uint8

const (
	waiting rowState = iota // not dealt with
	flying                  // with the producer
	settled                 // in Kafka, or to be passed over: to be marked
	marked                  // in the table
	left    rowState = 255  // left for another claim
)

func newBatch() *batch { return &batch{changed: make(chan struct{}, 1)} }

func (b *batch) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.relation, b.width, b.next, b.flying, b.stuck = nil, 0, 0, 0, time.Time{}
	b.values, b.arena, b.rows = b.values[:0], b.arena[:0], b.rows[:0]
	select {
	case <-b.changed:
	default:
	}
}

// add copies a row.
func (b *batch) add(row batchRow, values [][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range values {
		if v == nil {
			b.values = append(b.values, pgoutput.Value{Kind: pgoutput.Null})
			continue
		}
		b.values = append(b.values, pgoutput.Value{Kind: pgoutput.Text, Data: b.copyToArena(v)})
	}
	b.width = len(values)
	row.part, row.tid = b.copyToArena(row.part), b.copyToArena(row.tid)
	b.rows = append(b.rows, row)
}

func (b *batch) copyToArena(v []byte) []byte {
	start := len(b.arena)
	b.arena = append(b.arena, v...)
	return b.arena[start:len(b.arena):len(b.arena)]
}

// fitting is how many rows to ask for next, at most most: as many as have so many bytes, if they are like the rows of
// this batch. The server sends rows beyond that, and they are thrown away.
func (b *batch) fitting(most, bytes int) int {
	if len(b.arena) == 0 {
		return most
	}
	return max(1, min(most, bytes*9/10/max(1, len(b.arena)/len(b.rows))))
}

func (b *batch) tuple(i int) pgoutput.Tuple { return b.values[i*b.width : (i+1)*b.width] }

// fly notes that a row is about to be handed to the producer, whose acknowledgement may come before the call returns.
func (b *batch) fly(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows[i].state = flying
	if b.flying++; b.flying == 1 {
		b.moved = time.Now()
	}
}

// land takes that back: the producer did not take it.
func (b *batch) land(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows[i].state = waiting
	b.flying--
}

// markPassedOver is for a row that is passed over by policy.
func (b *batch) markPassedOver(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows[i].state = settled
}

// ack is for a row whose record is in Kafka. It returns the record's time.
func (b *batch) ack(i int) (at int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rows[i].state == flying {
		b.rows[i].state = settled
		b.flying--
		b.moved = time.Now()
	}
	select {
	case b.changed <- struct{}{}:
	default:
	}
	return b.rows[i].at
}

// leave gives up a lane's rows from one on: they are read again by the next claim.
func (b *batch) leave(from int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lane := b.rows[from].lane
	for i := from; i < len(b.rows) && b.rows[i].lane == lane; i++ {
		if b.rows[i].state == waiting {
			b.rows[i].state = left
		}
	}
}

// leaveLanes does so for all rows that were not dealt with of the lanes that are not in keep.
func (b *batch) leaveLanes(keep []int) {
	var kept [Lanes]bool
	for _, n := range keep {
		kept[n] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.rows {
		if r := &b.rows[i]; r.state == waiting && !kept[r.lane] {
			r.state = left
		}
	}
}

// marks lists the rows that may be marked in the table.
func (b *batch) marks() (indexes []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.rows {
		if b.rows[i].state == settled {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

func (b *batch) markedAll(indexes []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range indexes {
		b.rows[i].state = marked
	}
}

// open lists the lanes with rows that are not over: waiting or with the producer.
func (b *batch) open() (lanes []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := -1
	for i := range b.rows {
		r := &b.rows[i]
		if (r.state == waiting || r.state == flying) && r.lane != last {
			lanes, last = append(lanes, r.lane), r.lane
		}
	}
	return lanes
}

// unmarked lists the lanes with rows that are settled and not marked.
func (b *batch) unmarked() (lanes []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := -1
	for i := range b.rows {
		if r := &b.rows[i]; r.state == settled && r.lane != last {
			lanes, last = append(lanes, r.lane), r.lane
		}
	}
	return lanes
}

// inFlight is how many rows are with the producer.
func (b *batch) inFlight() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flying
}

// held notes whether the next row cannot be handed over, as at the missing topic of an event.
func (b *batch) held(is bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !is:
		b.stuck = time.Time{}
	case b.stuck.IsZero():
		b.stuck = time.Now()
	}
}

// waited is for how long nothing makes progress: no row with the producer was acknowledged, or the next row cannot go
// there.
func (b *batch) waited(now time.Time) (d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flying > 0 {
		d = now.Sub(b.moved)
	}
	if !b.stuck.IsZero() {
		d = max(d, now.Sub(b.stuck))
	}
	return d
}

// state of a row, for the worker.
func (b *batch) state(i int) rowState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rows[i].state
}
