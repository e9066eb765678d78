package kafka

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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

// Its place is filled by another record, or not at all; then the partition goes on under another epoch, or the
// transaction is sent again without it.
func TestRemovesARefusedRecord(t *testing.T) {
	cause := verdictNamed("INVALID_RECORD")
	for name, test := range map[string]struct {
		more      int
		announced bool
	}{
		"a quiet topic":        {0, false},
		"partitions are added": {1, true},
	} {
		p, part := aRefused(t, cause)
		part.begun, part.identity = true, p.id
		keyed(part, "b")
		part.topic.more, p.waiters = test.more, 1
		changed := p.changed
		size := part.queued[1].size()
		p.remove(part, nil, nil)
		require.Len(t, part.queued, 1, name)
		require.Equal(t, size, part.pending, name)
		require.Nil(t, part.refused, name)
		require.Zero(t, part.attempt, name)
		require.Equal(t, identity{1, 1}, p.id, name)
		require.Len(t, p.completed, 1, "its ticket comes back")
		require.Equal(t, test.announced, changed != p.changed, name)
	}
	p, part := aRefused(t, cause, exactlyOnce("x"))
	p.remove(part, nil, nil)
	require.True(t, p.restarting)
	require.Empty(t, p.completed, "with its transaction")
	require.EqualValues(t, 1, p.tx.live.acked)
	require.Len(t, p.tx.live.dropped, 1)
}

// A replacement comes after all of its transaction in the partition, and before what belongs to the next.
func TestReplacesARefusedRecord(t *testing.T) {
	rec := &router.Record{Topic: "t", Value: []byte("letter")}
	for name, test := range map[string]struct {
		before, after int // batches of the target that belong to the live transaction, and to the next
		led, added    bool
	}{
		"nothing there":   {0, 0, true, false},
		"no leader":       {0, 0, false, false},
		"of both":         {2, 2, true, false},
		"of the next":     {0, 1, true, true},
		"of the live one": {1, 0, true, true},
	} {
		p, part := aRefused(t, verdictNamed("INVALID_RECORD"), exactlyOnce("x"))
		target := part.topic.partitions[1]
		next := &transaction{}
		p.tx.filling = next
		for range test.before {
			keyed(target, "x").tx = p.tx.live
		}
		for range test.after {
			keyed(target, "y").tx = next
		}
		if !test.led {
			target.broker = nil
		}
		if test.added {
			p.tx.live.parts = append(p.tx.live.parts, target)
		}
		old := part.queued[0]
		old.window, old.tickets[0] = 42, 77
		before := target.pending
		p.control.metaAt = later(time.Hour)
		p.replace(old, target, rec)
		require.Len(t, target.queued, test.before+1+test.after, name)
		b := target.queued[test.before]
		require.Equal(t, []uint64{77}, b.tickets, name)
		require.EqualValues(t, 42, b.window, name)
		require.Same(t, p.tx.live, b.tx, name)
		require.Equal(t, before+b.size(), target.pending, name)
		require.Equal(t, []*partition{part, target}, p.tx.live.parts, name)
		require.Nil(t, target.filling, name)
		require.Equal(t, !test.led, time.Until(p.control.metaAt) < time.Minute, name)
	}
	p, part := aRefused(t, verdictNamed("INVALID_RECORD"), exactlyOnce("x"))
	p.tx.join(p.tx.filling, part.topic.partitions[1])
	require.Same(t, p.tx.filling, part.topic.partitions[1].filling)

	p, part = aRefused(t, verdictNamed("INVALID_RECORD"))
	b := part.topic.partitions[1].broker
	connect(b)
	p.flushed = true
	p.replace(part.queued[0], part.topic.partitions[1], rec)
	require.Len(t, b.conn.send, 1, "it goes out")
}

// A replacement's topic is waited for, and counted as wanted meanwhile only.
func TestTargetOfAReplacement(t *testing.T) {
	p := still(t)
	parts := p.partitions(2)
	p.mu.Lock()
	defer p.mu.Unlock()
	target, err := p.target(t.Context(), &router.Record{Topic: "t", Partition: 1})
	require.NoError(t, err)
	require.Same(t, parts[1], target)
	require.Zero(t, parts[0].topic.waiters)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, rec := range []*router.Record{{Topic: "t", Partition: 2}, {Topic: "another"}} {
		_, err = p.target(ended, rec)
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, p.topic(rec.Topic).waiters)
	}
}
