package connector

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

func exactlyOnce(cfg Config) Config {
	cfg.ExactlyOnce = true
	cfg.Replication.Slot = "s"
	return cfg
}

func stored(timeline int32, commit offsets.LSN, index uint32) *sink.Stored {
	return &sink.Stored{Position: sink.Position{
		Timeline: timeline,
		Position: offsets.Position{Commit: commit, Index: index},
	}, SystemID: "1", Instance: "other"}
}

// What the stored position covers is acknowledged and not produced, also in the middle of a transaction.
func TestFencingSkipsCoveredRows(t *testing.T) {
	s := newStream(begin(0x200), row("a"), row("b"), commit(0x210), begin(0x300), row("c"), row("d"), row("e"),
		commit(0x310))
	r := startWith(t, exactlyOnce(Config{}), &fakeProducer{auto: true, stored: stored(1, 0x300, 1)},
		opening{at(0x100), s})
	require.Eventually(t, func() bool { return r.confirmed() == 0x310 }, 30*time.Second, time.Millisecond)
	require.Equal(t, []string{"e"}, r.producer.produced())
	require.EqualValues(t, 4, r.Status().Counts.Covered)
	require.Equal(t, []sink.Owner{{ID: "cdc-outbox.1.s", SystemID: "1"}}, r.producer.claims)
	r.stop()
	require.NoError(t, <-r.done)
}

// A position of another timeline is never skipped to: the log may hold something else there.
func TestFencingIgnoresAnotherTimeline(t *testing.T) {
	s := newStream(begin(0x200), row("a"), commit(0x210))
	r := startWith(t, exactlyOnce(Config{}), &fakeProducer{auto: true, stored: stored(2, 0x300, 1)},
		opening{at(0x100), s})
	require.Eventually(t, func() bool { return r.confirmed() == 0x210 }, 30*time.Second, time.Millisecond)
	require.Equal(t, []string{"a"}, r.producer.produced())
	r.stop()
	require.NoError(t, <-r.done)
}

// Nor one that the server's log does not reach: it was restored from a copy that knows nothing of it.
func TestFencingIgnoresPositionBeyondLog(t *testing.T) {
	restored := at(0x100)
	restored.WALEnd = 0x2f0
	s := newStream(begin(0x200), row("a"), commit(0x210))
	r := startWith(t, exactlyOnce(Config{}), &fakeProducer{auto: true, stored: stored(1, 0x300, 1)},
		opening{restored, s})
	require.Eventually(t, func() bool { return r.confirmed() == 0x210 }, 30*time.Second, time.Millisecond)
	require.Equal(t, []string{"a"}, r.producer.produced())
	r.stop()
	require.NoError(t, <-r.done)
}

// Nor one that is of this stream's timeline no more, after a promotion.
func TestFencingForgetsAtPromotion(t *testing.T) {
	promoted := at(0x100)
	promoted.Timeline, promoted.TimelineChanged = 2, true
	r := startWith(t, exactlyOnce(Config{}), &fakeProducer{auto: true, stored: stored(1, 0x300, 0)},
		opening{at(0x100), brokenStream(begin(0x200), row("a"), commit(0x210))},
		opening{promoted, newStream(begin(0x220), row("b"), commit(0x230))})
	require.Eventually(t, func() bool { return r.confirmed() == 0x230 }, 30*time.Second, time.Millisecond)
	require.Equal(t, []string{"b"}, r.producer.produced())
	require.Len(t, r.producer.claims, 2, "what is in hand is of the old timeline")
	r.stop()
	require.NoError(t, <-r.done)
}

func TestFencingRefusesAnotherCluster(t *testing.T) {
	wrong := stored(1, 0x300, 1)
	wrong.SystemID = "2"
	r := startWith(t, exactlyOnce(Config{}), &fakeProducer{stored: wrong}, opening{at(0x100), newStream()})
	require.Equal(t, fault.Operator, fault.KindOf(<-r.done))
}

// Marks stand at the ends of transactions that had something to publish.
func TestMarkPlacement(t *testing.T) {
	r := startWith(t, exactlyOnce(Config{}), &fakeProducer{auto: true, holdIt: true},
		opening{at(0x100), brokenStream(begin(0x200), row("a"), row("b"), commit(0x210), begin(0x220), commit(0x230),
			begin(0x300), row("c"))},
		opening{at(0x100), newStream(begin(0x200), row("a"), row("b"), commit(0x210), begin(0x300), row("c"), row("d"),
			commit(0x310), begin(0x400), row("e"), commit(0x410))})
	require.Eventually(t, func() bool { return r.confirmed() == 0x410 }, 30*time.Second, time.Millisecond)
	require.Equal(t, []int{2, 4, 5}, r.producer.marks)
	require.Empty(t, r.producer.commits)
	r.stop()
	require.NoError(t, <-r.done)
}

// A transaction larger than the window is committed in parts instead of waiting for its own end.
func TestCommitWithFullWindow(t *testing.T) {
	s := newStream(begin(0x200), row("a"), row("b"), row("c"), row("d"), row("e"), commit(0x210), begin(0x300),
		row("f"), commit(0x310))
	r := startWith(t, exactlyOnce(Config{WindowRecords: 2}), &fakeProducer{auto: true, holdIt: true},
		opening{at(0x100), s})
	require.Eventually(t, func() bool { return r.confirmed() == 0x310 }, 30*time.Second, time.Millisecond)
	require.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, r.producer.produced())
	require.NotEmpty(t, r.producer.commits)
	r.stop()
	require.NoError(t, <-r.done)
}

// Rows of the transaction after the next are not read while one is being committed: they could only wait in memory.
// A transaction of Postgres that meets this bound is still read to its end, and stays whole.
func TestReadsOneKafkaTransactionAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := strings.Repeat("x", 1000)
		script := []*pgoutput.Message{begin(0x200)}
		for range 10 {
			script = append(script, row(large))
		}
		script = append(script, commit(0x210), begin(0x300), row("b"), commit(0x310))
		r := startWith(t, exactlyOnce(Config{WindowBytes: 36_000}), &fakeProducer{},
			opening{at(0x100), newStream(script...)})
		synctest.Wait()
		_, bytes := r.window.InUse()
		require.Greater(t, bytes, int64(36_000/leastShareTransactions))
		require.Equal(t, 10, len(r.producer.produced()))
		r.producer.ack()
		synctest.Wait()
		require.Equal(t, 11, len(r.producer.produced()))
		r.producer.ack()
		synctest.Wait()
		require.Equal(t, walAt(0x310), r.confirmed())
		r.stop()
		require.NoError(t, <-r.done)
	})
}

// A stop ends a wait for Kafka: the next transaction is not begun, and what was read is confirmed once it is
// acknowledged.
func TestStopDuringAWaitForKafka(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startWith(t, Config{WindowBytes: 36_000}, &fakeProducer{},
			opening{at(0x100), newStream(begin(0x200), row(strings.Repeat("x", 10_000)), commit(0x210),
				begin(0x300), row("b"), commit(0x310))})
		synctest.Wait()
		began := time.Now()
		r.stop()
		synctest.Wait()
		r.producer.ack()
		require.NoError(t, <-r.done)
		require.Zero(t, time.Since(began), "no patience is waited out")
		require.Len(t, r.producer.produced(), 1)
		require.Equal(t, walAt(0x210), r.confirmed())
	})
}

// A part of the window is enough for a broker that answers. The rest is for one that does not for a while: then the
// reader goes on, and waits for no transaction again until there is less to wait for.
//
// Bug (monitor): The reader waited for Kafka between transactions, with exactly_once always, and `back_pressure` was
// not reported. Cost: a backlog without a cause.
func TestWaitsForABrokerThatAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large, small := row(strings.Repeat("x", 10_000)), row("b")
		var script []*pgoutput.Message
		for i, m := range []*pgoutput.Message{large, small, small, small, large, small} {
			at := uint64(0x200 + i*0x100)
			script = append(script, begin(at), m, commit(at+0x10))
		}
		r := startWith(t, Config{WindowBytes: 36_000, WindowRecords: 4}, &fakeProducer{},
			opening{at(0x100), newStream(script...)})
		produced := func(n int) {
			synctest.Wait()
			require.Equal(t, n, len(r.producer.produced()))
		}
		produced(1)
		require.True(t, r.Status().Window.Full, "the wait is back pressure")
		time.Sleep(patience - time.Millisecond)
		produced(1)
		time.Sleep(time.Millisecond)
		produced(4)
		r.producer.ack()
		produced(5)
		time.Sleep(patience)
		produced(6)
		r.producer.ack()
		synctest.Wait()
		require.Equal(t, walAt(0x710), r.confirmed())
		r.stop()
		require.NoError(t, <-r.done)
	})
}
