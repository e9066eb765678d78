package kafka

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

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
	}{
		"the leader moved":            {leaderMoved, 1, 100, 0, 0, false},
		"another leader":              {verdict(wire.Refresh), 1, 100, 2, 4 * time.Second, false},
		"the connection":              {connectionLost, 1, socketRequestMax, 2, 0, false},
		"a request that is too large": {connectionLost, 1, socketRequestMax + 1, 2, 10 * time.Hour, false},
		"nothing flew":                {connectionLost, 0, socketRequestMax + 1, 2, 0, false},
		"again":                       {verdict(wire.Rewind), 1, 100, 3, 8 * time.Second, false},
		"damaged once":                {wire.VerdictOf(wire.CorruptMessage), 1, 100, 0, time.Second, false},
		"damaged again":               {wire.VerdictOf(wire.CorruptMessage), 1, 100, 1, 10 * time.Hour, false},
		"an operator's":               {verdict(wire.Mute), 1, 100, 1, 10 * time.Hour, false},
		"fenced":                      {verdict(wire.Fenced), 1, 100, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
				if test.wait == 0 {
					require.False(t, part.waiting)
					return
				}
				part.wait(t, test.wait)
				require.Equal(t, test.attempt+1, part.attempt)
				require.Contains(t, p.waiting, part)
			})
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
	a, b := &topic{name: "a"}, &topic{name: "b", number: 1}
	a.adopt(2)
	b.adopt(2)
	topics := map[string]*topic{"a": a, "b": b}
	answer := func(topic string, index int32, code int16) wire.AnsweredTopic {
		return wire.AnsweredTopic{Name: []byte(topic), Partitions: []wire.AnsweredPartition{
			{Index: index, Code: code, BaseOffset: int64(code) * 10},
		}}
	}
	for name, test := range map[string]struct {
		topics []wire.AnsweredTopic
		want   []int16
	}{
		"in order": {
			[]wire.AnsweredTopic{answer("a", 0, 1), answer("a", 1, 2), answer("b", 1, 3)}, []int16{1, 2, 3},
		},
		"in another": {
			[]wire.AnsweredTopic{answer("b", 1, 3), answer("a", 1, 2), answer("a", 0, 1)}, []int16{1, 2, 3},
		},
		"one is missing": {[]wire.AnsweredTopic{answer("a", 0, 1), answer("a", 1, 2)}, nil},
		"another topic":  {[]wire.AnsweredTopic{answer("a", 0, 1), answer("a", 1, 2), answer("a", 2, 3)}, nil},
		"another partition": {
			[]wire.AnsweredTopic{answer("a", 0, 1), answer("a", 1, 2), answer("b", 0, 3)}, nil,
		},
	} {
		r := &request{}
		for _, part := range append(a.partitions, b.partitions[1]) {
			r.batches = append(r.batches, newBatch(part))
		}
		r.arrange()
		codes, err := r.match(&wire.ProduceAnswer{Topics: test.topics}, topics)
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

	other := &broker{id: 2, cancel: func(error) {}, wanted: make(chan struct{}, 1)}
	connect(other)
	parts[1].broker, parts[2].broker = other, nil
	for _, part := range parts {
		keyed(part, "more")
	}
	r.version = 6
	var answers []wire.AnsweredPartition
	for i := range parts {
		answers = append(answers, wire.AnsweredPartition{Index: int32(i)})
	}
	answers[2].Code = wire.UnknownTopic
	res := &wire.ProduceAnswer{
		Throttle: 50 * time.Millisecond, Topics: []wire.AnsweredTopic{{Name: []byte("t"), Partitions: answers}},
	}
	before := time.Now()
	require.NoError(t, p.answer(b, r, res))
	after := time.Now()
	require.Equal(t, 1, p.flying, "the other broker's")
	require.Empty(t, b.conn.send, "throttled")
	require.Len(t, other.conn.send, 1)
	require.True(t, b.throttled)
	require.WithinRange(t, b.throttledUntil, before.Add(50*time.Millisecond), after.Add(50*time.Millisecond))
	require.InDelta(t, 1, retried(p, wire.UnknownTopic), 0, "of one code")
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
		require.Equal(t, test.fenced, errors.Is(p.ended, sink.ErrFenced), name)
		require.Equal(t, test.fatal, p.fatal != nil, name)
	}
}

// Whatever costs the sequence costs the session, with an owner and without one.
func TestALostSequenceEndsTheSession(t *testing.T) {
	for mode, change := range modes {
		for action, lost := range map[wire.Action]bool{
			wire.Bump: true, wire.Renew: true, wire.Rewind: false, wire.Mute: false,
		} {
			p := still(t, change)
			part := p.partitions(1)[0]
			keyed(part, "a")
			part.take(p.id)
			part.unanswered = 0
			part.drain(wire.Verdict{Code: 99, Name: "X", Action: action})
			p.rewind(part)
			require.Equal(t, lost, errors.Is(p.ended, sink.ErrSessionOver), "%s %s", mode, action)
			require.Nil(t, p.fatal)
		}
	}
}

// A batch that is refused is counted by its code, and a batch that is taken is not.
func TestCountsRetries(t *testing.T) {
	p := still(t)
	part := p.partitions(1)[0]
	p.resolve(func() *batch { keyed(part, "a"); return part.take(p.id) }(), wire.VerdictOf(0))
	known := testutil.CollectAndCount(p.metrics.retries)
	require.Zero(t, retried(p, wire.UnknownTopic))
	p.resolve(func() *batch { keyed(part, "a"); return part.take(p.id) }(), wire.VerdictOf(wire.UnknownTopic))
	require.InDelta(t, 1, retried(p, wire.UnknownTopic), 0)
	require.Equal(t, known, testutil.CollectAndCount(p.metrics.retries), "no series begins with its first retry")
}

// retried is how many batches were sent again for the code.
func retried(p *Producer, code int16) float64 {
	return testutil.ToFloat64(p.metrics.retries.WithLabelValues(wire.VerdictOf(code).Name))
}
