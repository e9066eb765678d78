package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// ready puts a batch of one record into each partition.
func (p *Producer) ready(parts []*partition) {
	for i, part := range parts {
		keyed(part, fmt.Sprint("k", i))
		p.refresh(part)
	}
}

// A connection carries five requests at most, none during a pause that the broker asked for, and none while the
// coordinator has to be asked first.
func TestPumpKeepsItsBounds(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(p *Producer, b *broker)
		sent int
	}{
		"idle":          {func(*Producer, *broker) {}, 1},
		"four fly":      {func(_ *Producer, b *broker) { b.inflight = make([]*request, maxInFlight-1) }, 1},
		"five fly":      {func(_ *Producer, b *broker) { b.inflight = make([]*request, maxInFlight) }, 0},
		"throttled":     {func(_ *Producer, b *broker) { b.throttledUntil = time.Now().Add(time.Hour) }, 0},
		"was throttled": {func(_ *Producer, b *broker) { b.throttledUntil = time.Now().Add(-time.Hour) }, 1},
		"suspended for long": {
			func(p *Producer, _ *broker) { p.own.renewed = time.Now().Round(0).Add(-renewLimit) }, 0,
		},
		"no connection": {func(_ *Producer, b *broker) { b.conn = nil }, 0},
	} {
		p := still(t, owned, func(cfg *Config) { cfg.MaxRequestBytes = 10 })
		p.own.begun, p.own.renewed = true, time.Now().Round(0)
		parts := p.partitions(1)
		b := parts[0].broker
		connect(b)
		b.conn.send = make(chan *request, 2*maxInFlight)
		sent := b.conn.send
		test.set(p, b)
		before := len(b.inflight)
		p.ready(parts)
		p.pump(b)
		require.Len(t, sent, test.sent, name)
		require.Len(t, b.inflight, before+test.sent, name)
		require.Equal(t, test.sent, p.flying, name)
	}
}

// A request takes the heads of the ready partitions in turn, as many as fit, and one in any case.
func TestCollectsInTurn(t *testing.T) {
	p := still(t)
	parts := p.partitions(4)
	p.ready(parts)
	b := parts[0].broker
	size := parts[0].queued[0].size()
	for _, test := range []struct {
		room, turn int
		want       []int32
	}{
		{size - 1, 0, []int32{0}},
		{size, 1, []int32{1}},
		{2*size - 1, 2, []int32{2}},
		{2 * size, 1, []int32{1, 2}},
		{2 * size, 3, []int32{0, 3}},
		{3 * size, 0, []int32{0, 1, 2}},
		{100 * size, 2, []int32{0, 1, 2, 3}},
	} {
		p.cfg.MaxRequestBytes, b.turn = test.room, test.turn
		r := p.collect(b)
		var got []int32
		for _, batch := range r.batches {
			got = append(got, batch.part.index)
		}
		require.Equal(t, test.want, got, "%+v", test)
		require.Equal(t, test.turn+len(got), b.turn)
		for _, part := range parts { // as if it had not been
			p.unready(part)
			part.unanswered = 0
			part.rewind()
		}
		for _, part := range parts {
			p.refresh(part)
		}
	}
}

// A partition that was idle for long is probed: its broker may have forgotten the producer.
func TestProbesAfterIdleness(t *testing.T) {
	const idle = time.Minute
	for name, test := range map[string]struct {
		ago    time.Duration
		flying bool
		want   state
	}{
		"at the bound":    {idle, false, normal},
		"past it":         {idle + 1, false, probing},
		"while one flies": {idle + 1, true, normal},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := still(t, func(cfg *Config) { cfg.pace.probeAfter = idle })
			parts := p.partitions(1)
			part := parts[0]
			part.state = normal
			if test.flying {
				keyed(part, "before")
				part.take(p.id)
			}
			part.lastAck = time.Now().Add(-test.ago)
			p.ready(parts)
			p.collect(part.broker)
			require.Equal(t, test.want, part.state, name)
		})
	}
}

func TestPartitionSends(t *testing.T) {
	live, later := &transaction{}, &transaction{}
	for name, test := range map[string]struct {
		set  func(part *partition)
		want bool
	}{
		"as it is":        {func(*partition) {}, true},
		"no leader":       {func(part *partition) { part.broker = nil }, false},
		"waiting":         {func(part *partition) { part.waiting = true }, false},
		"refused":         {func(part *partition) { part.refused = &refused{} }, false},
		"nothing pending": {func(part *partition) { part.pending = 0 }, false},
		"its transaction": {func(part *partition) { part.queued[0].tx, part.registered = live, live }, true},
		"a later one":     {func(part *partition) { part.queued[0].tx, part.registered = later, live }, false},
		"not registered":  {func(part *partition) { part.queued[0].tx = live }, false},
		"draining":        {func(part *partition) { part.state = draining }, false},
		"probing, one flies": {
			func(part *partition) { part.inflight = make([]*batch, 1) }, false,
		},
		"four fly": {
			func(part *partition) { part.state, part.inflight = normal, make([]*batch, maxInFlight-1) }, true,
		},
		"five fly": {
			func(part *partition) { part.state, part.inflight = normal, make([]*batch, maxInFlight) }, false,
		},
	} {
		part := led(t, 1)
		test.set(part)
		require.Equal(t, test.want, part.sendable(), name)
	}
}

// An answer makes room on its own connection and at brokers that lead its partitions by now. Its failures are
// counted, and its throttle time is kept.
func TestAnAnswerGoesOn(t *testing.T) {
	p := still(t, func(cfg *Config) { cfg.MaxRequestBytes = 10 })
	parts := p.partitions(3)
	b := parts[0].broker
	cut := connect(b)
	p.ready(parts)
	p.cfg.MaxRequestBytes = 1 << 20
	p.flush()
	r := <-b.conn.send
	require.Len(t, r.batches, 3)

	other := &broker{id: 2, cancel: func() {}, wanted: make(chan struct{}, 1)}
	connect(other)
	parts[1].broker, parts[2].broker = other, nil
	for _, part := range parts {
		keyed(part, "more")
	}
	r.version = 6
	var answers []produce.ResponsePartition
	for i := range parts {
		answers = append(answers, produce.ResponsePartition{Partition: int32(i)})
	}
	answers[2].ErrorCode = wire.UnknownTopic
	res := &produce.Response{ThrottleTimeMs: 50, Topics: []produce.ResponseTopic{{Topic: "t", Partitions: answers}}}
	require.NoError(t, p.answer(b, r, res))
	require.Equal(t, 1, p.flying, "the other broker's")
	require.Empty(t, b.conn.send, "throttled")
	require.Len(t, other.conn.send, 1)
	require.True(t, b.throttled)
	require.WithinDuration(t, time.Now().Add(50*time.Millisecond), b.throttledUntil, 45*time.Millisecond)
	require.InDelta(t, 1, testutil.CollectAndCount(p.metrics.retries), 0, "of one code")
	require.NoError(t, *cut)

	r.generation = p.generation + 1
	require.ErrorIs(t, p.answer(b, r, res), errAbandoned)
}

// The leader's word of a newer epoch is for the owner where the coordinator's epochs protect it.
func TestFencedByALeader(t *testing.T) {
	fenced := wire.Verdict{Code: 90, Name: "PRODUCER_FENCED", Action: wire.Fenced}
	for name, test := range map[string]struct {
		change func(*Config)
		plain  bool
		cause  wire.Verdict
		fenced bool // the owner
		fatal  bool
	}{
		"owned":               {owned, false, fenced, true, false},
		"owned, an old epoch": {owned, false, wire.VerdictOf(wire.InvalidProducerEpoch), true, false},
		"owned, another code": {owned, false, wire.VerdictOf(wire.UnknownTopic), false, false},
		"plain":               {owned, true, fenced, false, true},
		"plain, an old epoch": {owned, true, wire.VerdictOf(wire.InvalidProducerEpoch), false, false},
		"no owner":            {func(*Config) {}, false, fenced, false, true},
		"no owner, old epoch": {func(*Config) {}, false, wire.VerdictOf(wire.InvalidProducerEpoch), false, false},
	} {
		p := still(t, test.change)
		part := p.partitions(1)[0]
		if p.own != nil {
			p.own.plain, p.own.begun, p.own.identity = test.plain, true, p.id
		}
		keyed(part, "a")
		part.take(p.id)
		part.unanswered = 0
		part.drain(test.cause)
		p.rewind(part)
		require.Equal(t, test.fenced, p.own != nil && p.own.fenced, name)
		require.Equal(t, test.fatal, p.fatal != nil, name)
	}
}

// With transactions whatever costs the epoch costs the transaction. The recovery begins when nothing flies any more.
func TestALostEpochLosesTheTransaction(t *testing.T) {
	for action, lost := range map[wire.Action]bool{
		wire.Bump: true, wire.Renew: true, wire.Fenced: true, wire.Rewind: false, wire.Mute: false,
	} {
		p, x := transacting(t)
		part := p.partitions(1)[0]
		keyed(part, "a")
		part.take(p.id)
		part.unanswered = 0
		part.drain(wire.Verdict{Code: 99, Name: "X", Action: action})
		p.rewind(part)
		require.Equal(t, lost, p.restarting, action)
		require.Equal(t, lost, poked(x.wake), action)
		require.Nil(t, p.fatal)
	}
	for flying, wakes := range map[int]bool{0: true, 1: false} {
		p, x := transacting(t)
		p.partitions(1)
		p.restarting, p.flying = true, flying
		p.proceed(p.brokers[1], nil)
		require.Equal(t, wakes, poked(x.wake))
	}
}

// A batch that is refused is counted by its code, and a batch that is taken is not.
func TestCountsRetries(t *testing.T) {
	p := still(t)
	part := p.partitions(1)[0]
	p.resolve(func() *batch { keyed(part, "a"); return part.take(p.id) }(), wire.VerdictOf(0))
	require.Zero(t, testutil.CollectAndCount(p.metrics.retries))
	p.resolve(func() *batch { keyed(part, "a"); return part.take(p.id) }(), wire.VerdictOf(wire.UnknownTopic))
	require.Equal(t, 1, testutil.CollectAndCount(p.metrics.retries))
}

// A record may be too large by a bound that costs little: more than its size in a batch.
func TestTightRecords(t *testing.T) {
	rec := &router.Record{Key: []byte("key"), Value: []byte("value"), Headers: []router.Header{{Key: "a"}, {Key: "b"}}}
	bound := rec.Size() + wire.HeaderSize + 12
	for limit, want := range map[int]bool{0: false, 1: true, bound - 1: true, bound: false, bound + 1: false} {
		require.Equal(t, want, (&topic{max: limit}).tight(rec), limit)
	}
}

// The halves share the window by the sizes of their records, and tags by the middle.
func TestHalvesOfWindowAndTags(t *testing.T) {
	records := variety()[:6]
	size := int64(0)
	for i := range records {
		if i < 3 {
			size += int64(records[i].Size())
		}
		records[i].Tag = i
	}
	b := fill(t, records)
	b.window += 100
	left, right, err := b.halves()
	require.NoError(t, err)
	require.Equal(t, size, left.window)
	require.Equal(t, b.window-size, right.window)
	require.Equal(t, []Tag{{0, 0}, {1, 1}, {2, 2}}, left.tags)
	require.Equal(t, []Tag{{0, 3}, {1, 4}, {2, 5}}, right.tags)
}

// A record that ends within its own length is damage, though the rest of the batch has bytes.
func TestDamagedRecords(t *testing.T) {
	for name, data := range map[string][]byte{
		"shorter than its length":         {20, 0, 0},
		"its length ends in the middle":   {2, 0, 0, 0, 0, 0},
		"its length ends after the delta": {4, 0, 0, 0, 0, 0},
	} {
		_, _, err := nextRecord(data)
		require.Error(t, err, name)
	}
	_, rest, err := nextRecord([]byte{6, 0, 0, 0, 9})
	require.NoError(t, err)
	require.Equal(t, []byte{9}, rest)
}

// A row's timestamp goes into the header once, and not at all where the topic keeps the row's.
func TestTimelyHeaders(t *testing.T) {
	old := int64(1600000000000)
	own := []router.Header{{Key: "id"}, original(nil, 77)}
	for name, test := range map[string]struct {
		keep    bool
		max     int
		headers []router.Header
		want    []router.Header
		kept    bool // the timestamp
	}{
		"an old row":       {false, 0, own[:1], []router.Header{{Key: "id"}, original(nil, old)}, false},
		"it has a header":  {false, 0, own, own, false},
		"it is all it has": {false, 0, own[1:], own[1:], false},
		"a preset's":       {true, 0, own[:1], own[:1], true},
		"no room for it":   {false, 1, own[:1], own[:1], false},
	} {
		p := still(t, func(cfg *Config) { cfg.KeepTimestamps = test.keep })
		topic := p.topic("t")
		topic.max = test.max
		rec := p.timely(topic, &router.Record{Headers: test.headers, Timestamp: old})
		require.Equal(t, test.want, rec.Headers, name)
		require.Equal(t, test.kept, rec.Timestamp == old, name)
	}
}

// A batch that has waited past the bound gets the present time for records that are too old.
func TestFreshens(t *testing.T) {
	const past = int64(1000)
	now := time.UnixMilli(1_795_000_000_000)
	ms := now.UnixMilli()
	for name, test := range map[string]struct {
		keep, open bool
		made       int64
		fresh      bool
	}{
		"young":        {false, false, ms - past, false},
		"old":          {false, false, ms - past - 1, true},
		"old and open": {false, true, ms - past - 1, true},
		"a preset's":   {true, false, ms - past - 1, false},
	} {
		p := still(t, func(cfg *Config) { cfg.KeepTimestamps = test.keep })
		part := p.partitions(1)[0]
		part.topic.shifts = shifts{past: past, ahead: past}
		b := newBatch(part)
		for i, at := range []int64{ms - past - 1, ms - past, ms} {
			rec := &router.Record{Value: []byte("v"), Timestamp: at, Tag: i}
			b.append(rec, uint64(i), math.MaxInt)
		}
		b.made, b.window = test.made, 42
		part.pending = b.size()
		if part.open = b; !test.open {
			part.seal()
		}
		before := b.size()
		p.freshen(part, now)
		head := part.head()
		require.Equal(t, test.fresh, head != b, name)
		require.Equal(t, head.size(), part.pending, name)
		if !test.fresh {
			require.Equal(t, before, head.size())
			continue
		}
		require.Equal(t, []uint64{0, 1, 2}, head.tickets, name)
		require.Equal(t, []Tag{{0, 0}, {1, 1}, {2, 2}}, head.tags, name)
		require.EqualValues(t, 42, head.window)
		require.WithinDuration(t, time.Now(), time.UnixMilli(head.made), time.Minute)
		data, err := head.expand()
		require.NoError(t, err)
		var kept []int64
		var said []string
		for range head.tickets {
			var raw rawRecord
			raw, data, err = nextRecord(data)
			require.NoError(t, err)
			rec, err := raw.decode()
			require.NoError(t, err)
			kept = append(kept, head.firstTimestamp+raw.timestampDelta)
			if at := originalAt(rec.Headers); at >= 0 {
				said = append(said, string(rec.Headers[at].Value))
			}
		}
		require.Equal(t, []int64{head.made, ms - past, ms}, kept, name)
		require.Equal(t, []string{fmt.Sprint(ms - past - 1)}, said, name)
	}
}

// A batch that was sent keeps its place, and gets headers only where the topic takes it with them.
func TestRestampsWithinTheLimit(t *testing.T) {
	for name, test := range map[string]struct {
		sequenced  bool
		limit, max int // beyond the batch with all its headers
		want       bool
	}{
		"not sent":            {false, -1, -1, true},
		"sent":                {true, -1, -1, false},
		"sent, it fits":       {true, 0, -1, true},
		"sent, by the topic":  {true, -1, 0, true},
		"sent, there is room": {true, 50, 50, true},
	} {
		part := &partition{topic: &topic{name: "t"}}
		b := keyed(part, "a", "b")
		most := b.size() + 2*originalBytes
		part.topic.limit, part.topic.max = most+test.limit, most+test.max
		if test.sequenced {
			b.assign(identity{1, 2}, 3)
		}
		require.Equal(t, test.want, b.takesHeaders(), name)
		fresh, err := b.restamped(5000, math.MaxInt64)
		require.NoError(t, err)
		require.Equal(t, []any{b.sequenced, b.identity, b.sequence, b.tickets, b.window},
			[]any{fresh.sequenced, fresh.identity, fresh.sequence, fresh.tickets, fresh.window}, name)
		require.Equal(t, []int64{5000, 5000}, []int64{fresh.firstTimestamp, fresh.maxTimestamp}, name)
		data, err := fresh.expand()
		require.NoError(t, err)
		raw, _, err := nextRecord(data)
		require.NoError(t, err)
		rec, err := raw.decode()
		require.NoError(t, err)
		require.Equal(t, test.want, originalAt(rec.Headers) >= 0, name)
	}
}

// Timestamps that the topic refuses are renewed once at once, and then slowly.
func TestRefusedTimestampsAreRenewed(t *testing.T) {
	p := still(t)
	part := p.partitions(1)[0]
	keyed(part, "a")
	cause := wire.VerdictOf(wire.InvalidTimestamp)
	part.topic.described = true
	require.NoError(t, p.refusedTimestamp(part, cause))
	require.False(t, part.waiting)
	require.False(t, part.topic.described)
	require.True(t, part.queued[0].refusedTimes)
	require.NoError(t, p.refusedTimestamp(part, cause))
	part.wait(t, p.cfg.pace.slow)
}

// The original timestamp is taken out of the headers wherever it is, and no second one is added.
func TestTakesTheOriginalTimestamp(t *testing.T) {
	id := router.Header{Key: "id"}
	for name, headers := range map[string][]router.Header{
		"alone": {original(nil, 77)}, "first": {original(nil, 77), id}, "last": {id, original(nil, 77)},
	} {
		part := &partition{topic: &topic{name: "t"}}
		b := newBatch(part)
		b.append(&router.Record{Headers: headers, Timestamp: 1000}, 1, math.MaxInt)
		fresh, err := b.restamped(5000, 2000)
		require.NoError(t, err)
		data, err := fresh.expand()
		require.NoError(t, err)
		raw, _, err := nextRecord(data)
		require.NoError(t, err)
		rec, err := raw.decode()
		require.NoError(t, err)
		require.Len(t, rec.Headers, len(headers), name)
		takeOriginal(&rec)
		require.EqualValues(t, 77, rec.Timestamp, name)
		require.Len(t, rec.Headers, len(headers)-1, name)
	}
	rec := router.Record{Headers: []router.Header{id}, Timestamp: 5}
	takeOriginal(&rec)
	require.Equal(t, router.Record{Headers: []router.Header{id}, Timestamp: 5}, rec)
	odd := []router.Header{{Key: router.HeaderOriginalTimestamp, Value: []byte("x")}}
	rec = router.Record{Headers: odd, Timestamp: 5}
	takeOriginal(&rec)
	require.Equal(t, router.Record{Headers: odd, Timestamp: 5}, rec)
}

// Halves share the size of the whole; only a refusal for its size lowers the limit.
func TestSplitsInTheQueue(t *testing.T) {
	for name, lowers := range map[string]bool{"MESSAGE_TOO_LARGE": true, "INVALID_RECORD": false} {
		p := still(t)
		part := p.partitions(1)[0]
		keyed(part, "a", "b", "c")
		keyed(part, "d")
		part.topic.limit, part.topic.described = 1<<20, true
		p.split(part, verdictNamed(name))
		require.Len(t, part.queued, 3, name)
		sum := 0
		for _, b := range part.queued {
			sum += b.size()
		}
		require.Equal(t, sum, part.pending, name)
		require.Equal(t, lowers, part.topic.limit == minBatchLimit, name)
		require.Equal(t, !lowers, part.topic.described, name)
	}
}

// The limit that was asked for lately counts, an older one is asked for again, and without one everything fits.
func TestFitsByALimitOfLate(t *testing.T) {
	const slow = time.Hour
	rec := &router.Record{Value: make([]byte, 100)}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		room    int // beyond what the record takes alone
		ago     time.Duration
		refused bool
		asks    bool
	}{
		"it fits": {0, 0, false, false}, "too large": {-1, slow - 1, true, false},
		"too large by an old limit": {-1, slow, false, true}, "no limit": {-1 << 20, 0, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := still(t, holdAll, func(cfg *Config) { cfg.pace.slow = slow })
			topic := p.topic("t")
			alone, err := p.cfg.sizeAlone(rec)
			require.NoError(t, err)
			topic.max, topic.describedAt = max(0, alone+test.room), time.Now().Add(-test.ago)
			p.mu.Lock()
			defer p.mu.Unlock()
			err = p.fits(ended, topic, rec)
			var refused *RefusedError
			require.Equal(t, test.refused, errors.As(err, &refused), name)
			require.Equal(t, test.asks, errors.Is(err, context.Canceled), name)
			require.Equal(t, !test.refused && !test.asks, err == nil, name)
		})
	}
}
