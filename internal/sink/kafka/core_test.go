package kafka

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// still is a producer that does not run, for calls of its parts. It has a producer id, and its delays are of different
// orders.
func still(t *testing.T, change ...func(*Config)) *Producer {
	t.Helper()
	cfg := Config{
		Cluster:   wire.Cluster{Brokers: []string{"127.0.0.1:1"}},
		Callbacks: sink.Callbacks{Acked: func(sink.Delivery) {}},
	}
	cfg.pace = defaultPace()
	cfg.pace.backoffMin, cfg.pace.backoffMax, cfg.pace.slow = time.Second, time.Minute, 10*time.Hour
	for _, f := range change {
		f(&cfg)
	}
	p, err := New(cfg)
	require.NoError(t, err)
	p.id, p.cancel = identity{1, 0}, func() {}
	return p
}

// partitions returns n partitions of a topic, which all have the same leader.
func (p *Producer) partitions(n int) []*partition {
	topic := p.topic("t")
	topic.adopt(n)
	b := &broker{id: 1, cancel: func(error) {}, wanted: make(chan struct{}, 1)}
	p.brokers[1] = b
	for _, part := range topic.partitions {
		part.broker = b
	}
	return topic.partitions
}

// connect gives the broker a connection that sends nothing.
func connect(b *broker) (cut *error) {
	cut = new(error)
	b.conn = &conn{send: make(chan *request, maxInFlight), cut: func(err error) { *cut = err }}
	return cut
}

// keyed queues a sealed batch of records with these keys; an empty one is null.
func keyed(part *partition, keys ...string) *batch {
	b := newBatch(part)
	b.made = time.Now().UnixMilli()
	for i, key := range keys {
		rec := &router.Record{Value: []byte(key + "'s value"), Timestamp: int64(1000 + i)}
		if key != "" {
			rec.Key = []byte(key)
		}
		if i%2 == 1 {
			rec.Tag = key
		}
		b.append(rec, uint64(100+i), math.MaxInt)
	}
	part.queued = append(part.queued, b)
	part.pending += b.size()
	return b
}

// wait is, in a bubble, how long the partition waits: the shortest and the longest that it could have drawn.
func (part *partition) wait(t *testing.T, longest time.Duration) {
	t.Helper()
	require.True(t, part.waiting)
	left := time.Until(part.retryAt)
	require.LessOrEqual(t, left, longest)
	require.GreaterOrEqual(t, left, longest/2)
}

// Every delay between half of the bound and the bound comes up, and no other.
func TestDelays(t *testing.T) {
	for failures, bound := range map[int]time.Duration{0: 4, 1: 8, 3: 32, 4: 64, 15: 64, 16: 64, 100: 64} {
		c := pace{backoffMin: 4, backoffMax: 64}
		seen := map[time.Duration]bool{}
		for range 3000 {
			seen[c.delay(failures)] = true
		}
		require.Len(t, seen, int(bound/2+1), failures)
		require.True(t, seen[bound] && seen[bound/2], failures)
	}
	long := pace{backoffMin: 1, backoffMax: 1 << 30}
	require.LessOrEqual(t, long.delay(refusedAttempt-1), time.Duration(1<<15))
	require.GreaterOrEqual(t, long.delay(refusedAttempt), time.Duration(1<<29), "credentials do not get better")
	seen := map[time.Duration]bool{}
	for range 1000 {
		c := pace{slow: 8}
		seen[c.slowly()] = true
	}
	require.Equal(t, map[time.Duration]bool{4: true, 5: true, 6: true, 7: true, 8: true}, seen)
}

func TestRoomOfABatch(t *testing.T) {
	b := newBatch(nil)
	require.Equal(t, int64(-1), b.baseOffset, "not known")
	value := make([]byte, 10) // a record adds 7 bytes
	require.Positive(t, b.append(&router.Record{Value: value}, 0, math.MaxInt))
	for full, spare := range []int{17, 16} {
		b.full, b.tail = nil, b.tail[:cap(b.tail)-spare]
		require.Equal(t, 17, b.append(&router.Record{Value: value}, 1, math.MaxInt))
		require.Len(t, b.full, full, "it fits to the byte")
	}

	for _, kept := range []bool{true, false} {
		b := newBatch(nil)
		b.tickets = make([]uint64, 0, maxTicketsKept)
		if !kept {
			b.tickets = make([]uint64, 0, maxTicketsKept+1)
		}
		b.free()
		require.Equal(t, kept, cap(b.tickets) > 0)
	}
}

// A batch keeps its header as long as it keeps its place.
func TestAssignOfABatch(t *testing.T) {
	one, two := identity{1, 0}, identity{1, 1}
	for name, test := range map[string]struct {
		id       identity
		sequence int32
		keeps    bool
	}{
		"the same place":   {one, 5, true},
		"another epoch":    {two, 5, false},
		"another sequence": {one, 6, false},
	} {
		b := newBatch(nil)
		b.assign(one, 5)
		b.stamped = true
		b.assign(test.id, test.sequence)
		require.Equal(t, test.keeps, b.stamped, name)
		require.Equal(t, []any{test.id, test.sequence, true}, []any{b.identity, b.sequence, b.sequenced}, name)
	}
	b := newBatch(nil)
	b.stamped = true
	b.assign(identity{}, 0)
	require.True(t, b.sequenced && !b.stamped, "the first place")
}

func TestSendingRuleOfABroker(t *testing.T) {
	flying := []*request{{}}
	for name, test := range map[string]struct {
		bytes    int
		inflight []*request
		flushed  bool
		want     bool
	}{
		"nothing":                 {0, nil, true, false},
		"flushed":                 {1, nil, true, true},
		"flushed while one flies": {799, flying, true, false},
		"full while one flies":    {800, flying, false, true},
		"a half":                  {400, nil, false, true},
		"less than a half":        {399, nil, false, false},
		"a half, while one flies": {400, flying, false, false},
	} {
		b := &broker{readyBytes: test.bytes, inflight: test.inflight}
		require.Equal(t, test.want, b.due(800, 400, test.flushed), name)
	}
}

// What a transaction has not sent when it ends delays its commit, so it keeps less for company.
func TestTransactionsSendEarlier(t *testing.T) {
	p := still(t)
	p.cfg.MaxRequestBytes = 800
	require.Equal(t, 400, p.cfg.idle(len(p.brokers)))
	p.brokers = map[int32]*broker{1: nil, 2: nil}
	require.Equal(t, 200, p.cfg.idle(len(p.brokers)))
	p.cfg.Transactions = &Transactions{}
	require.Equal(t, 100, p.cfg.idle(len(p.brokers)))
}

func TestSendingNeedsTheRight(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(p *Producer)
		want bool
	}{
		"an id":          {func(*Producer) {}, true},
		"no id":          {func(p *Producer) { p.id = noIdentity }, false},
		"id 0":           {func(p *Producer) { p.id = identity{0, 0} }, true},
		"begun":          {func(p *Producer) { p.own = &ownership{begun: true} }, true},
		"not begun":      {func(p *Producer) { p.own = &ownership{} }, false},
		"over":           {func(p *Producer) { p.own, p.ended = &ownership{begun: true}, sink.ErrFenced }, false},
		"over, no owner": {func(p *Producer) { p.ended = sink.ErrSessionOver }, false},
	} {
		p := still(t)
		test.set(p)
		require.Equal(t, test.want, p.sending(), name)
	}
}

// TestChunkClasses: a chunk is as large as its class says, so that each comes back to the list that it is taken from.
func TestChunkClasses(t *testing.T) {
	last, largest := -1, 0
	for n := 1; n <= 1<<maxChunkBits; n += 1 + n/64 {
		class, size := chunkClass(n)
		require.GreaterOrEqual(t, size, n)
		require.LessOrEqual(t, size, max(1<<pageBits, 2*n))
		require.Less(t, class, len(freeChunks))
		again, same := chunkClass(size)
		require.Equal(t, []int{class, size}, []int{again, same}, "%d bytes", n)
		if size > largest {
			require.Greater(t, class, last, "a class has one size")
			last, largest = class, size
		}
		require.Equal(t, last, class)
	}
	require.Equal(t, len(freeChunks)-1, last)
}

// TestBatchesWasteLittle: a partition whose batches are small leaves less than a page unused. One whose batches are
// large leaves less than a chunk, besides the ends of chunks that the next record did not fit into.
func TestBatchesWasteLittle(t *testing.T) {
	fill := func(size, usual, records int) (waste float64, unused, chunks int) {
		b := newBatch(&partition{usual: usual})
		defer b.free()
		room, body := 0, make([]byte, size)
		for range records {
			b.appendBody(body, 0, 0, math.MaxInt)
		}
		for c := range b.chunks() {
			room += cap(c)
		}
		return 1 - float64(b.payload)/float64(room), room - b.payload, len(b.full) + 1
	}
	for records := 2; records <= 8; records++ {
		waste, unused, _ := fill(450, 1800, records)
		require.Less(t, waste, 0.35, "%d records", records)
		require.Less(t, unused, 1<<pageBits, "%d records", records)
	}
	for _, usual := range []int{0, 100 << 10} { // a backlog, after little and after much
		for _, records := range []int{20, 60, 64, 130, 300, 1200} {
			_, unused, chunks := fill(450, usual, records)
			require.Less(t, unused, 1<<chunkBits+450*chunks, "%d records", records)
			require.LessOrEqual(t, chunks, smallBatch>>pageBits+2+records/8, "%d records", records)
		}
	}
	for _, size := range []int{2100, 4200, 5000, 8300, 12000, 16500, 20000} { // with thousands of partitions
		for records := 1; records <= 2; records++ {
			waste, _, _ := fill(size, records*size, records)
			require.LessOrEqual(t, waste, 0.67, "%d records of %d bytes", records, size)
		}
	}
	for _, size := range []int{6 << 10, 9 << 10, 17 << 10, 40 << 10} {
		waste, _, _ := fill(size, 1<<20, (1<<20)/size)
		require.Less(t, waste, 0.4, "records of %d bytes", size)
	}
}

// TestTickFlushesWhileMuchComes: a caller that always has something to read may not flush for a long time.
//
// Bug (stream): A reader that always had something to read, most of it rows of other tables, never flushed, and less
// than an eighth of a request waited for company without bound. Cost: an event minutes late, the slot did not move
// (found by reading).
func TestTickFlushesWhileMuchComes(t *testing.T) {
	p := still(t)
	now := time.Unix(1e9, 0)
	for i, step := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {500 * time.Millisecond, false}, {500 * time.Millisecond, true}} {
		p.produced++
		p.flushed = false
		now = now.Add(step.after)
		p.tick(now)
		require.Equal(t, step.want, p.flushed, "tick %d", i)
	}
}
