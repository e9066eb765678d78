package kafka

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/kafka/wire"
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
		more, fewer int
		announced   bool
	}{
		"a quiet topic":        {0, 0, false},
		"partitions are added": {1, 0, true},
		"partitions are fewer": {0, 1, true},
	} {
		p, part := aRefused(t, cause)
		part.begun, part.identity = true, p.id
		keyed(part, "b")
		part.topic.more, part.topic.fewer, p.waiters = test.more, test.fewer, 1
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

// What the coordinator committed of us, or forgot, is no other producer's work.
func TestUntouchedPositions(t *testing.T) {
	x := &transactions{committed: "ours"}
	require.True(t, x.untouched("ours"))
	require.True(t, x.untouched(""))
	require.False(t, x.untouched("another's"))
}

// A recovery waits once where the recovery before did not help; a split does not wait.
func TestRecoveryIsPaced(t *testing.T) {
	for name, test := range map[string]struct {
		redone int
		paced  bool
		cause  wire.Action
		waits  bool
	}{
		"the first":         {0, false, wire.Bump, false},
		"the second":        {1, false, wire.Bump, true},
		"it has waited":     {1, true, wire.Bump, false},
		"after a refusal":   {1, false, wire.Split, false},
		"the first refusal": {0, false, wire.Split, false},
	} {
		p, x := transacting(t)
		x.redone, x.recovery = test.redone, recovery{cause: wire.Verdict{Action: test.cause}, paced: test.paced}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wait := p.recover(ctx)
		require.Equal(t, test.waits, wait >= time.Second, name)
		require.Equal(t, test.waits || test.paced, x.recovery.paced, name)
		require.Equal(t, !test.waits, x.failures == 1, name)
	}
}

// The epoch is taken back only where the coordinator itself may have raised it, and no other producer has committed.
func TestFencesAgainOnlyItsOwn(t *testing.T) {
	expired, fencedCause := wire.VerdictOf(wire.InvalidProducerIDMapping), wire.VerdictOf(wire.ProducerFenced)
	const timeout = time.Hour
	for name, test := range map[string]struct {
		cause     wire.Verdict
		opened    time.Duration // ago; 0: not at all
		committed string        // what we left; "": what is stored
		ending    bool
		metadata  bool // of the transaction is what is stored
		code      int16
		renewed   bool
		fenced    bool
	}{
		"expired":                      {expired, 0, "", false, false, 0, true, false},
		"open for long":                {fencedCause, timeout * 4 / 5, "", false, false, 0, true, false},
		"open for a while":             {fencedCause, timeout / 2, "", false, false, 0, false, true},
		"not open":                     {fencedCause, 0, "", false, false, 0, false, true},
		"another's commit":             {expired, 0, "x", false, false, 0, false, true},
		"our own commit":               {expired, 0, "x", true, true, 0, true, false},
		"not our commit":               {expired, 0, "x", true, false, 0, false, true},
		"the same, but we did not end": {expired, 0, "x", false, true, 0, false, true},
		"the coordinator is busy":      {expired, 0, "", false, false, wire.ConcurrentTransactions, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := transactedRig(t, timeout)
			x := r.tx
			stored := x.committed
			if test.committed != "" {
				x.committed = test.committed
			}
			tx := &transaction{ending: test.ending}
			if test.metadata {
				tx.metadata = stored
			}
			if test.opened > 0 {
				tx.opened = time.Now().Add(-test.opened)
			}
			if test.code != 0 {
				answerOnce(r.cluster, kmsg.InitProducerID, test.code)
			}
			again := recovery{cause: test.cause, fenced: true}
			err := r.fenceAgain(t.Context(), tx, &again)
			var code *wire.CodeError
			require.Equal(t, test.code != 0, errors.As(err, &code))
			require.Equal(t, test.renewed, again.renewed)
			require.Equal(t, test.fenced, x.fenced)
		})
	}
}

// The end of the transaction and the next epoch are asked for once, each, and only where they are missing.
func TestAsksForWhatARecoveryLacks(t *testing.T) {
	for name, test := range map[string]struct {
		r         recovery
		ends, ids int32
	}{
		"nothing is done":        {recovery{}, 1, 1},
		"it is aborted":          {recovery{aborted: true}, 0, 1},
		"the id is good":         {recovery{aborted: true, renewed: true, id: identity{1, 9}}, 0, 0},
		"fenced":                 {recovery{fenced: true, cause: wire.VerdictOf(wire.InvalidProducerIDMapping)}, 0, 1},
		"fenced, the id is good": {recovery{fenced: true, renewed: true, id: identity{1, 9}}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := transactedRig(t, time.Hour)
			ends, ids := counted(r.cluster, kmsg.EndTxn), counted(r.cluster, kmsg.InitProducerID)
			require.NoError(t, r.tryRecover(t.Context(), &transaction{opened: time.Now()}, r.id, &test.r))
			require.Equal(t, []int32{test.ends, test.ids}, []int32{ends.Load(), ids.Load()})
			require.False(t, r.own.fenced)
			require.Equal(t, 1, r.tx.redone)
		})
	}
}

// Each answer that says that the epoch is another's leads to the question whose it is.
func TestLosesTheEpochInARecovery(t *testing.T) {
	for code, fenced := range map[int16]bool{
		wire.InvalidProducerEpoch: true, wire.InvalidProducerIDMapping: true, wire.ProducerFenced: true,
		wire.InvalidTxnState: true, wire.ConcurrentTransactions: false,
	} {
		r := transactedRig(t, time.Hour)
		answerOnce(r.cluster, kmsg.InitProducerID, code)
		got := recovery{aborted: true}
		err := r.abort(t.Context(), &transaction{}, r.id, &got)
		require.Equal(t, fenced, err == nil)
		require.Equal(t, fenced, got.fenced)
		require.False(t, got.renewed)
	}
}

// transactedRig is a producer that has committed a transaction, and has nothing to do.
func transactedRig(t *testing.T, timeout time.Duration) *rig {
	t.Helper()
	r := newRig(t, newCluster(t, kfake.SeedTopics(1, "a")), exactlyOnce("first")).start()
	r.transact(1, "a")
	r.drain()
	r.lock()
	defer r.Producer.mu.Unlock()
	r.tx.cfg.Timeout = timeout
	return r
}

// counted counts the requests of a kind, which are answered as ever.
func counted(c *kfake.Cluster, key kmsg.Key) *atomic.Int32 {
	var n atomic.Int32
	c.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return &n
}
