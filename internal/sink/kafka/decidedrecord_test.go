package kafka

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// aRefused has a partition whose first batch is refused, in either mode.
func aRefused(t *testing.T, cause wire.Verdict, change ...func(*Config)) (*Producer, *partition) {
	t.Helper()
	p := still(t, append(change, holdAll)...)
	if p.own != nil {
		p.own.begun = true
	}
	part := p.partitions(2)[0]
	b := keyed(part, "a")
	if p.tx != nil {
		b.tx = p.tx.live
		p.tx.live.parts, p.tx.live.records = []*partition{part}, 1
	}
	p.refuse(part, cause)
	return p, part
}

// A refused record waits for its decision, and its topic's limit is asked for where that is the cause.
func TestARefusedRecordWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, asks := range map[string]bool{"MESSAGE_TOO_LARGE": true, "INVALID_RECORD": false} {
			p, part := aRefused(t, verdictNamed(name))
			require.Equal(t, 1, part.attempt)
			require.NotNil(t, part.refused)
			require.Equal(t, []*partition{part}, p.refusals)
			require.True(t, poked(p.asks))
			part.topic.described = true
			p.refuse(part, verdictNamed(name))
			require.Equal(t, !asks, part.topic.described, name)
		}
		p := still(t)
		part := p.partitions(1)[0]
		keyed(part, "a")
		p.refuse(part, verdictNamed("INVALID_RECORD"))
		require.Nil(t, part.refused)
		part.wait(t, p.cfg.pace.slow)
	})
}

// The limit is waited for as long as a request may take, whatever else happens meanwhile.
func TestWaitsForTheLimit(t *testing.T) {
	for name, test := range map[string]struct {
		answered time.Duration
		want     time.Duration
	}{"an answer": {2 * time.Second, 2 * time.Second}, "no answer": {time.Hour, 10 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			p := still(t)
			p.control.timeout = 10 * time.Second
			topic := p.topic("t")
			begun := time.Now()
			happens := func(at time.Duration, what func()) {
				time.AfterFunc(at, func() {
					p.mu.Lock()
					defer p.mu.Unlock()
					what()
					p.announce()
				})
			}
			happens(time.Second, func() {})
			if test.answered < time.Minute {
				happens(test.answered, func() { topic.describedAt = time.Now() })
			}
			p.mu.Lock()
			p.awaitLimit(context.Background(), topic, begun.Add(1))
			p.mu.Unlock()
			require.Equal(t, test.want, time.Since(begun), name)
		})
	}
}

// A decision is about the record, whatever its time, and about no other.
func TestDecisionsAreAboutARecord(t *testing.T) {
	rec := func(change func(*router.Record)) *router.Record {
		r := &router.Record{
			Topic: "t", Partition: -1, Key: []byte("k"), Value: []byte("v"), Timestamp: 1,
			Headers: []router.Header{{Key: "a", Value: []byte("b")}, {Key: "c"}},
		}
		change(r)
		return r
	}
	topic := &topic{name: "t"}
	topic.decide(rec(func(*router.Record) {}), sink.Resolution{Action: sink.Drop})
	for name, test := range map[string]struct {
		change func(*router.Record)
		same   bool
	}{
		"itself":         {func(*router.Record) {}, true},
		"another time":   {func(r *router.Record) { r.Timestamp = 2 }, true},
		"another key":    {func(r *router.Record) { r.Key = []byte("l") }, false},
		"another value":  {func(r *router.Record) { r.Value = []byte("w") }, false},
		"another header": {func(r *router.Record) { r.Headers[0].Value = []byte("d") }, false},
		"a header less":  {func(r *router.Record) { r.Headers = r.Headers[:1] }, false},
		"moved bytes":    {func(r *router.Record) { r.Key, r.Value = []byte("kv"), nil }, false},
	} {
		_, found := topic.decided.of[fingerprint(rec(test.change))]
		require.Equal(t, test.same, found, name)
	}
}

// Decisions are bounded in number and bytes, and forgotten in time.
func TestDecisionsAreBounded(t *testing.T) {
	topic := &topic{name: "t"}
	numbered := func(n int) *router.Record { return &router.Record{Value: fmt.Append(nil, n)} }
	for n := range mostDecided + 1 {
		topic.decide(numbered(n), sink.Resolution{Action: sink.Drop})
		require.LessOrEqual(t, len(topic.decided.of), mostDecided)
	}
	require.Len(t, topic.decided.of, 1)
	large := &router.Record{Value: make([]byte, mostDecidedBytes/2)}
	for n := range 2 {
		topic.decide(numbered(-1-n), sink.Resolution{Action: sink.Replace, Record: large})
	}
	require.Len(t, topic.decided.of, 3)
	topic.decide(numbered(-9), sink.Resolution{Action: sink.Replace, Record: large})
	require.Len(t, topic.decided.of, 1)
	topic.forgetDecisions(topic.decided.last.Add(decidedAge))
	require.NotNil(t, topic.decided)
	topic.forgetDecisions(topic.decided.last.Add(decidedAge + 1))
	require.Nil(t, topic.decided)
}

// A record that is left out is acknowledged, with its transaction, and its replacement takes its ticket, its tag and
// its size in the window along.
func TestCarriesOutDecisions(t *testing.T) {
	for mode, change := range modes {
		p := still(t, change)
		topic := p.partitions(2)[0].topic
		p.control.metaAt = later(time.Hour)
		rec := func(value string) *router.Record {
			return &router.Record{Topic: "t", Partition: 1, Key: []byte("k"), Value: []byte(value), Tag: value}
		}
		letter := &router.Record{Topic: "t", Partition: 0, Value: []byte("letter")}
		topic.decide(rec("dropped"), sink.Resolution{Action: sink.Drop})
		topic.decide(rec("replaced"), sink.Resolution{Action: sink.Replace, Record: letter})
		for ticket, value := range []string{"dropped", "replaced", "kept"} {
			require.NoError(t, p.ProduceAt(t.Context(), rec(value), uint64(ticket), at(uint64(ticket+1))))
		}
		require.EqualValues(t, 3, p.produced, mode)
		left := p.completed
		if p.tx != nil {
			left = p.tx.live.dropped
			require.EqualValues(t, 3, p.tx.live.records)
			require.EqualValues(t, 1, p.tx.live.acked)
			require.Empty(t, p.completed)
		}
		require.Len(t, left, 1, mode)
		require.Equal(t, []uint64{0}, left[0].tickets)
		require.Empty(t, left[0].tags)
		require.EqualValues(t, rec("dropped").Size(), left[0].window)
		instead := topic.partitions[0].open
		require.Equal(t, []uint64{1}, instead.tickets)
		require.EqualValues(t, rec("replaced").Size(), instead.window)
		require.Equal(t, "replaced", instead.tags[0].Tag)
		require.Equal(t, []uint64{2}, topic.partitions[1].open.tickets)
	}
}

// A replacement's topic is waited for, and counted as wanted meanwhile only.
func TestAwaitsTheTargetOfAReplacement(t *testing.T) {
	p := still(t)
	parts := p.partitions(2)
	p.mu.Lock()
	defer p.mu.Unlock()
	target, err := p.awaitTarget(t.Context(), parts[0].topic, &router.Record{Topic: "t", Partition: 1})
	require.NoError(t, err)
	require.Same(t, parts[1], target)
	require.Zero(t, parts[0].topic.waiters)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, rec := range []*router.Record{{Topic: "t", Partition: 2}, {Topic: "another"}} {
		_, err = p.awaitTarget(ended, p.topic(rec.Topic), rec)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, p.topic(rec.Topic).waiters)
	}
}
