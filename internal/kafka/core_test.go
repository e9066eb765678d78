package kafka

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// still is a producer that does not run, for calls of its parts. It has a producer id, and its delays are of different
// orders.
func still(t *testing.T, change ...func(*Config)) *Producer {
	t.Helper()
	cfg := Config{Cluster: wire.Cluster{Brokers: []string{"127.0.0.1:1"}}, Acked: func(Delivery) {}}
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
	b := &broker{id: 1, cancel: func() {}, wanted: make(chan struct{}, 1)}
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

// wait is how long the partition waits: the shortest and the longest that it could have drawn.
func (part *partition) wait(t *testing.T, longest time.Duration) {
	t.Helper()
	require.True(t, part.waiting)
	left := time.Until(part.retryAt)
	require.LessOrEqual(t, left, longest)
	require.GreaterOrEqual(t, left, longest/2-time.Second/4)
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
	first := b.room(10)
	first.buf = first.buf[:cap(first.buf)-10]
	require.Same(t, first, b.room(10), "it fits to the byte")
	require.NotSame(t, first, b.room(11))
	require.Len(t, b.chunks, 2)

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

// What flies is forgotten with its connection; a connection on which nothing flies stays.
func TestForgetsWhatFlies(t *testing.T) {
	b := &broker{}
	cut := connect(b)
	b.forgetFlying()
	require.NotNil(t, b.conn)
	require.NoError(t, *cut)
	b.inflight = []*request{{}}
	b.forgetFlying()
	require.Nil(t, b.conn)
	require.ErrorIs(t, *cut, errAbandoned)
	require.Empty(t, b.inflight)
	b.inflight = []*request{{}}
	b.forgetFlying()
	require.Empty(t, b.inflight, "its connection broke before")
}

// Abandon ends the step that is under way, where there is one.
func TestAbandonEndsTheStep(t *testing.T) {
	for _, stepping := range []bool{true, false} {
		core, logs := observer.New(zap.InfoLevel)
		p := still(t, owned, func(cfg *Config) { cfg.Logger = zap.New(core) })
		p.started = true
		ended := false
		if stepping {
			p.own.cancelStep = func() { ended = true }
			keyed(p.partitions(1)[0], "a", "b")
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			<-p.own.wake
			p.mu.Lock()
			defer p.mu.Unlock()
			p.giveUp()
		}()
		generation := p.generation
		require.Zero(t, still(t, owned).Abandon(), "it does not run")
		dropped := p.Abandon()
		<-done
		require.Equal(t, stepping, ended)
		require.NotEqual(t, generation, p.generation)
		if stepping {
			require.Equal(t, 2, dropped.Records)
			require.Equal(t, 1, logs.FilterMessageSnippet("are given up").Len())
		} else {
			require.Zero(t, logs.Len())
		}
	}
}

// Without the right, or with an old broker, plain ids are used at once; without a coordinator only after a while.
func TestSettlesForPlain(t *testing.T) {
	const patience = time.Minute
	code := func(c int16) error { return fmt.Errorf("wrapped: %w", &wire.CodeError{API: "InitProducerID", Code: c}) }
	for name, test := range map[string]struct {
		err     error
		wanted  bool
		missing time.Duration // for how long the coordinator has been missing; 0: it is not
		want    bool
		counts  bool // afterwards the coordinator is missing
	}{
		"refused":             {code(wire.TransactionalIDAuthorizationFailed), true, 0, true, false},
		"refused, not wanted": {code(wire.TransactionalIDAuthorizationFailed), false, 0, false, false},
		"too old":             {&wire.NotOfferedError{}, true, 0, true, false},
		"another error":       {errors.New("cut"), true, 0, false, false},
		"missing":             {code(wire.CoordinatorNotAvailable), true, 0, false, true},
		"missing for a while": {code(wire.CoordinatorNotAvailable), true, patience / 2, false, true},
		"missing for long":    {code(wire.CoordinatorNotAvailable), true, patience, true, true},
		"another code":        {code(wire.ConcurrentTransactions), true, patience, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := still(t, owned, func(cfg *Config) { cfg.pace.coordinator = patience })
			p.own.wanted = test.wanted
			if test.missing > 0 {
				p.own.unavailable = time.Now().Add(-test.missing)
			}
			require.Equal(t, test.want, p.settlesForPlain(test.err), name)
			require.Equal(t, test.want, p.own.plain, name)
			require.Equal(t, test.counts, !p.own.unavailable.IsZero(), name)
		})
	}
}

// Records of a partition that no longer exists move, up to the first that named the partition. Sizes, tags and tickets
// go with them.
func TestScatter(t *testing.T) {
	topic := &topic{name: "t"}
	topic.adopt(5)
	topic.fewer = 3
	from := topic.partitions[4]
	var here []string // keys of partition 4 by target
	for i := 0; len(here) < 3; i++ {
		if key := fmt.Sprint("k", i); partitionOf([]byte(key), 5) == 4 {
			here = append(here, key)
		}
	}
	other := "x"
	for i := 0; partitionOf([]byte(other), 5) == 4; i++ {
		other = fmt.Sprint("x", i)
	}
	b := keyed(from, here[0], "", here[1], other, here[2], "")
	b.made, b.window = 77, b.window+10 // a header of our own
	moved, stray, rest, err := b.scatter(topic)
	require.NoError(t, err)

	got := map[uint64]int32{}
	tags := map[uint64]any{}
	window := int64(0)
	take := func(m *batch, index int32) {
		require.Equal(t, []int64{77}, []int64{m.made})
		for _, ticket := range m.tickets {
			got[ticket] = index
		}
		require.Equal(t, 1000+int64(m.tickets[0]-100), m.firstTimestamp)
		require.Equal(t, 1000+int64(m.tickets[len(m.tickets)-1]-100), m.maxTimestamp)
		for _, tag := range m.tags {
			tags[m.tickets[tag.Record]] = tag.Tag
		}
		window += m.window
	}
	for _, m := range moved {
		take(m, m.part.index)
	}
	take(stray, -1)
	take(rest, -2)
	require.Equal(t, map[uint64]int32{
		100: partitionOf([]byte(here[0]), 3), 101: 4 % 3, 102: partitionOf([]byte(here[1]), 3), 103: -1, 104: -2, 105: -2,
	}, got)
	require.Equal(t, map[uint64]any{101: "", 103: other, 105: ""}, tags)
	require.Equal(t, b.window, window)
	require.Same(t, from, stray.part)
	require.Same(t, from, rest.part)
}

func TestPartitionStrands(t *testing.T) {
	one := []*batch{{}}
	for name, test := range map[string]struct {
		part partition
		want bool
	}{
		"nothing":          {partition{}, false},
		"open":             {partition{open: &batch{}}, true},
		"queued":           {partition{queued: one}, true},
		"in flight":        {partition{inflight: one}, true},
		"held":             {partition{held: one}, true},
		"of each":          {partition{queued: one, inflight: one, held: one}, true},
		"queued, in air":   {partition{queued: one, inflight: one}, true},
		"refused":          {partition{open: &batch{}, refused: &refused{}}, false},
		"waiting":          {partition{queued: one, waiting: true}, false},
		"refused, waiting": {partition{queued: one, refused: &refused{}, waiting: true}, false},
		"waits, empty":     {partition{waiting: true}, false},
	} {
		require.Equal(t, test.want, test.part.strands(), name)
	}
}

// A partition that no longer exists is emptied only when nothing of it is under way or to be decided.
func TestRepartitionWaits(t *testing.T) {
	for name, test := range map[string]struct {
		busy func(part *partition)
		want int
	}{
		"idle":      {func(*partition) {}, 0},
		"in flight": {func(part *partition) { part.unanswered = 1 }, 1},
		"refused":   {func(part *partition) { part.refused = &refused{} }, 1},
		"waiting":   {func(part *partition) { part.waiting = true }, 1},
	} {
		core, logs := observer.New(zap.WarnLevel)
		p := still(t, func(cfg *Config) { cfg.Logger = zap.New(core) })
		parts := p.partitions(2)
		keyed(parts[1], "")
		test.busy(parts[1])
		topic := parts[0].topic
		topic.fewerSeen, topic.fewerAt = fewerAnswers, time.Now().Add(-p.cfg.pace.slow)
		size := parts[1].pending
		p.shrink(topic, 1)
		require.Equal(t, 1, logs.FilterMessageSnippet("with fewer partitions").Len(), name)
		p.shrink(topic, 1)
		require.Equal(t, test.want*size, parts[1].pending, name)
		require.Equal(t, (1-test.want)*size, parts[0].pending, name)
		require.Len(t, parts[1].queued, test.want, name)
		require.Len(t, parts[0].queued, 1-test.want, name)
		require.Equal(t, 1, logs.FilterMessageSnippet("with fewer partitions").Len(), name)
	}
}

// Fewer partitions are believed at the eleventh answer and after the time, both at the least.
func TestBelievesInFewerPartitions(t *testing.T) {
	for name, test := range map[string]struct {
		seen int
		ago  time.Duration
		want int
	}{
		"both": {fewerAnswers, time.Hour, 1}, "an answer less": {fewerAnswers - 1, time.Hour, 2},
		"a moment less": {fewerAnswers, time.Hour - 1, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := still(t, func(cfg *Config) { cfg.pace.slow = time.Hour })
			topic := p.partitions(2)[0].topic
			topic.fewerSeen, topic.fewerAt = test.seen-1, time.Now().Add(-test.ago)
			p.shrink(topic, 1)
			require.Len(t, topic.partitions, test.want, name)
		})
	}
}

// A batch that moves comes before what belongs to the next transaction, and its partition is named to the coordinator.
func TestMovesWithinItsTransaction(t *testing.T) {
	for name, test := range map[string]struct {
		queued string // of the target: l for the live transaction, n for the next
		live   bool   // the batch is of the live one
		led    bool
		at     int
	}{
		"empty": {"", true, true, 0}, "after its own": {"ll", true, true, 2}, "between": {"lnn", true, true, 1},
		"before the next": {"n", true, true, 0}, "of the next": {"ln", false, true, 2},
		"of the next, after the live": {"l", false, true, 1}, "no leader": {"ln", true, false, 1},
	} {
		p, x := transacting(t)
		parts := p.partitions(2)
		next := &transaction{}
		x.filling = next
		of := map[rune]*transaction{'l': x.live, 'n': next}
		for _, kind := range test.queued {
			keyed(parts[0], "x").tx = of[kind]
		}
		if !test.led {
			parts[0].broker = nil
		}
		b := keyed(parts[1], "moved")
		b.part, b.tx = parts[0], next
		if test.live {
			b.tx = x.live
		}
		p.control.metaAt = later(time.Hour)
		before := parts[0].pending
		p.enqueue(b)
		require.Same(t, b, parts[0].queued[test.at], name)
		require.Equal(t, before+b.size(), parts[0].pending, name)
		require.Equal(t, []*partition{parts[0]}, b.tx.unadded, name)
		require.Equal(t, !test.live, parts[0].filling == next, name)
		require.Equal(t, test.live, poked(x.wake), name)
		require.Equal(t, !test.led, time.Until(p.control.metaAt) < time.Minute, name)
		x.leave(parts[0])
		require.Empty(t, b.tx.parts, name)
		x.live.parts = slices.Clone(parts)
		x.leave(parts[0])
		require.Equal(t, parts[1:], x.live.parts, name)
	}
}

func TestSendingRuleOfABroker(t *testing.T) {
	flying := []*request{{}}
	for name, test := range map[string]struct {
		bytes    int
		inflight []*request
		flushed  bool
		want     bool
	}{
		"nothing":                    {0, nil, true, false},
		"flushed":                    {1, nil, true, true},
		"flushed while one flies":    {799, flying, true, false},
		"full while one flies":       {800, flying, false, true},
		"an eighth":                  {100, nil, false, true},
		"less than an eighth":        {99, nil, false, false},
		"an eighth, while one flies": {100, flying, false, false},
	} {
		b := &broker{readyBytes: test.bytes, inflight: test.inflight}
		require.Equal(t, test.want, b.due(800, test.flushed), name)
	}
}

func TestSendingNeedsTheRight(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(p *Producer)
		want bool
	}{
		"an id":           {func(*Producer) {}, true},
		"no id":           {func(p *Producer) { p.id = noIdentity }, false},
		"id 0":            {func(p *Producer) { p.id = identity{0, 0} }, true},
		"restarting":      {func(p *Producer) { p.restarting = true }, false},
		"begun":           {func(p *Producer) { p.own = &ownership{begun: true} }, true},
		"not begun":       {func(p *Producer) { p.own = &ownership{} }, false},
		"fenced":          {func(p *Producer) { p.own = &ownership{begun: true, fenced: true} }, false},
		"fenced at first": {func(p *Producer) { p.own = &ownership{fenced: true} }, false},
	} {
		p := still(t)
		test.set(p)
		require.Equal(t, test.want, p.sending(), name)
	}
}

// What the partition does after a failure, by its cause.
func TestRecoversByCause(t *testing.T) {
	verdict := func(a wire.Action) wire.Verdict { return wire.Verdict{Code: 99, Name: "X", Action: a} }
	for name, test := range map[string]struct {
		cause   wire.Verdict
		again   int
		size    int
		attempt int
		wait    time.Duration // 0: it goes on at once
		fatal   bool
		epoch   int16
	}{
		"the leader moved":            {leaderMoved, 1, 100, 0, 0, false, 0},
		"another leader":              {verdict(wire.Refresh), 1, 100, 2, 4 * time.Second, false, 0},
		"the connection":              {connectionLost, 1, socketRequestMax, 2, 0, false, 0},
		"a request that is too large": {connectionLost, 1, socketRequestMax + 1, 2, 10 * time.Hour, false, 0},
		"nothing flew":                {connectionLost, 0, socketRequestMax + 1, 2, 0, false, 0},
		"again":                       {verdict(wire.Rewind), 1, 100, 3, 8 * time.Second, false, 0},
		"damaged once":                {wire.VerdictOf(wire.CorruptMessage), 1, 100, 0, time.Second, false, 0},
		"damaged again":               {wire.VerdictOf(wire.CorruptMessage), 1, 100, 1, 10 * time.Hour, false, 0},
		"a new epoch":                 {verdict(wire.Bump), 1, 100, 1, 2 * time.Second, false, 1},
		"a new id":                    {verdict(wire.Renew), 1, 100, 1, 2 * time.Second, false, -1},
		"an operator's":               {verdict(wire.Mute), 1, 100, 1, 10 * time.Hour, false, 0},
		"fenced":                      {verdict(wire.Fenced), 1, 100, 0, 0, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := still(t)
			part := p.partitions(1)[0]
			b := keyed(part, "a")
			part.take(p.id)
			part.rewind()
			b.payload = test.size - wire.HeaderSize
			part.attempt = test.attempt
			p.recoverFrom(part, test.cause, test.again)
			require.Equal(t, test.fatal, p.fatal != nil)
			if test.fatal {
				require.Equal(t, fault.Operator, fault.KindOf(p.fatal))
			}
			require.Equal(t, test.epoch, p.id.epoch)
			if test.wait == 0 {
				require.False(t, part.waiting)
				return
			}
			part.wait(t, test.wait)
			require.Equal(t, test.attempt+1, part.attempt)
			require.Contains(t, p.waiting, part)
		})
	}
}

// A rewind is one where something has failed, or has to be sent again.
func TestCountsRewinds(t *testing.T) {
	for name, test := range map[string]struct {
		cause wire.Verdict
		again int
		want  float64
	}{
		"the leader moved, all was answered": {leaderMoved, 0, 0},
		"the leader moved":                   {leaderMoved, 1, 1},
		"the connection broke":               {connectionLost, 0, 1},
	} {
		p := still(t)
		part := p.partitions(1)[0]
		keyed(part, "a")
		if test.again > 0 {
			part.take(p.id)
			part.unanswered = 0
		}
		part.drain(test.cause)
		p.rewind(part)
		require.Equal(t, test.want, testutil.ToFloat64(p.metrics.rewinds), name)
		require.Equal(t, probing, part.state, name)
	}
}

// An epoch is raised only where the partition's sequence is under the latest one.
func TestBumps(t *testing.T) {
	for name, test := range map[string]struct {
		own   bool
		begun bool
		part  identity
		id    identity
		renew bool
		want  identity
		asks  bool
	}{
		"ours":             {false, true, identity{1, 4}, identity{1, 4}, false, identity{1, 5}, false},
		"of an old epoch":  {false, true, identity{1, 3}, identity{1, 4}, false, identity{1, 4}, false},
		"nothing was sent": {false, false, identity{1, 4}, identity{1, 4}, false, identity{1, 4}, false},
		"another id":       {false, true, identity{1, 4}, identity{1, 4}, true, noIdentity, false},
		"used up":          {false, true, identity{1, maxEpoch}, identity{1, maxEpoch}, false, noIdentity, false},
		"the coordinator's": {
			true, true, identity{1, 4}, identity{1, 4}, false, noIdentity, true,
		},
	} {
		p := still(t, func(cfg *Config) { cfg.Owned = test.own })
		part := p.partitions(1)[0]
		keyed(part, "a").assign(test.part, 7)
		p.id, part.begun, part.identity, part.nextSequence = test.id, test.begun, test.part, 8
		p.bump(part, test.renew)
		require.Equal(t, test.want, p.id, name)
		require.Equal(t, test.asks, test.own && p.own.renewing(), name)
		require.False(t, part.begun || part.queued[0].sequenced, name)
		require.Zero(t, part.nextSequence, name)
		require.InDelta(t, 1, testutil.ToFloat64(p.metrics.epochBumps), 0)
	}
}

// The first cause of a drain counts, but a leader that moved is only the occasion.
func TestCauseOfADrain(t *testing.T) {
	fails, refresh := verdictNamed("NOT_ENOUGH_REPLICAS"), connectionLost
	for name, test := range map[string]struct {
		first, then, want wire.Verdict
	}{
		"the first":             {wire.Verdict{}, fails, fails},
		"an echo":               {refresh, fails, refresh},
		"after the leader":      {leaderMoved, fails, fails},
		"the leader's own echo": {leaderMoved, refresh, leaderMoved},
	} {
		part := led(t, 1)
		b := part.take(identity{1, 0})
		part.cause = test.first
		require.False(t, part.answered(b, test.then), name)
		require.Equal(t, test.want, part.cause, name)
		require.Equal(t, draining, part.state, name)
	}
	part := &partition{cause: fails}
	part.drain(leaderMoved)
	require.Equal(t, fails, part.cause)
}

// An answer names each batch of its request, in any order; an unknown or missing one makes it worthless.
func TestMatchesAnswers(t *testing.T) {
	a, b := &topic{name: "a"}, &topic{name: "b"}
	a.adopt(2)
	b.adopt(2)
	answer := func(topic string, index int32, code int16) produce.ResponseTopic {
		return produce.ResponseTopic{Topic: topic, Partitions: []produce.ResponsePartition{
			{Partition: index, ErrorCode: code, BaseOffset: int64(code) * 10},
		}}
	}
	for name, test := range map[string]struct {
		topics []produce.ResponseTopic
		want   []int16
	}{
		"in order": {
			[]produce.ResponseTopic{answer("a", 0, 1), answer("a", 1, 2), answer("b", 1, 3)}, []int16{1, 2, 3},
		},
		"in another": {
			[]produce.ResponseTopic{answer("b", 1, 3), answer("a", 1, 2), answer("a", 0, 1)}, []int16{1, 2, 3},
		},
		"one is missing": {[]produce.ResponseTopic{answer("a", 0, 1), answer("a", 1, 2)}, nil},
		"another topic":  {[]produce.ResponseTopic{answer("a", 0, 1), answer("a", 1, 2), answer("a", 2, 3)}, nil},
		"another partition": {
			[]produce.ResponseTopic{answer("a", 0, 1), answer("a", 1, 2), answer("b", 0, 3)}, nil,
		},
	} {
		r := &request{batches: []*batch{newBatch(a.partitions[0]), newBatch(a.partitions[1]), newBatch(b.partitions[1])}}
		codes, err := r.match(&produce.Response{Topics: test.topics})
		require.Equal(t, test.want, codes, name)
		if test.want == nil {
			require.ErrorContains(t, err, "3 partitions", name)
			continue
		}
		require.NoError(t, err)
		for i, batch := range r.batches {
			require.Equal(t, int64(test.want[i])*10, batch.baseOffset, name)
		}
	}
}
