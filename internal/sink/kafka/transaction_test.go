package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

var owner = sink.Owner{ID: "cdc-outbox.7.slot", SystemID: "7"}

func exactlyOnce(instance string) func(*Config) {
	return func(cfg *Config) { cfg.Transactions = &Transactions{Instance: instance} }
}

func (r *rig) begin() (sink.Stored, bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	s, ok, err := r.Begin(ctx, owner)
	require.NoError(r.t, err, "%+v", r.Trouble())
	return s, ok
}

// produceAt is produce with the ticket's number as the commit LSN.
func (r *rig) produceAt(topic, key string) {
	r.t.Helper()
	r.ticket++
	value := fmt.Sprintf("%s:%08d", key, r.ticket)
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	require.NoError(r.t, r.give(ctx, &router.Record{
		Topic: topic, Partition: -1, Key: []byte(key), Value: []byte(value),
	}))
	r.sent[topic] = append(r.sent[topic], value)
}

func (r *rig) transact(n int, topics ...string) {
	r.t.Helper()
	for i := range n {
		r.produceAt(topics[i%len(topics)], fmt.Sprint("k", i%7))
		r.Mark()
	}
	r.Flush()
}

// checkCommitted compares what a read_committed consumer sees with the input.
func (r *rig) checkCommitted() {
	r.t.Helper()
	r.drain()
	for topic, values := range r.sent {
		require.Equal(r.t, byKey(values), byKey(committed(r.t, r.cluster, topic, len(values))), "topic %s", topic)
	}
	r.checkAcks()
}

// committed reads with read_committed until n records and then, for a moment, whether there are more.
func committed(t testing.TB, c *kfake.Cluster, topic string, n int) []string {
	t.Helper()
	cl, err := newClient(c.ListenAddrs(), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(20*time.Millisecond))
	require.NoError(t, err)
	defer cl.Close()
	var out []string
	poll := func(d time.Duration, until func() bool) {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		for !until() && ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(func(rec *kgo.Record) { out = append(out, string(rec.Value)) })
		}
	}
	poll(testPatience, func() bool { return len(out) >= n })
	poll(100*time.Millisecond, func() bool { return false })
	return out
}

func TestTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(3, "a", "b"))
		r := newRig(t, c, exactlyOnce("first"))
		_, found := r.begin()
		require.False(t, found)
		for range 5 {
			r.transact(200, "a", "b")
			time.Sleep(20 * time.Millisecond)
		}
		r.checkCommitted()
		require.Positive(t, testutil.ToFloat64(r.metrics.transactions.WithLabelValues("committed")))
		require.Zero(t, testutil.ToFloat64(r.metrics.transactions.WithLabelValues("aborted")))
		r.stop()
		<-r.stopped

		second := newRig(t, c, exactlyOnce("second"))
		s, found := second.begin()
		require.True(t, found)
		require.Equal(t, sink.Stored{Position: at(1000), SystemID: "7", Instance: "first"}, s)
	})
}

// A lone record is committed at once, and a whole upstream transaction is never cut by Flush or the interval.
func TestTransactionBoundaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "a"))
		r := newRig(t, c, exactlyOnce("first"), func(cfg *Config) { cfg.Transactions.Interval = 10 * time.Millisecond })
		r.begin()
		r.produceAt("a", "k")
		r.Flush()
		time.Sleep(100 * time.Millisecond)
		require.Empty(t, committed(t, c, "a", 0))
		r.produceAt("a", "k")
		r.Mark()
		r.Flush()
		require.Len(t, committed(t, c, "a", 2), 2)

		r.produceAt("a", "k")
		r.Commit() // the window is full
		require.Eventually(t, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.acked) == 3 }, testPatience,
			time.Millisecond)
		r.checkCommitted()
	})
}

// A full window does not cut an upstream transaction in two while the commit of the previous transaction is about to
// make room.
//
// Bug (producer): A full window ended the Kafka transaction at any row, even while the commit of the previous
// transaction was about to make room. Cost: under load a `read_committed` consumer saw half of a Postgres transaction
// that would have fitted.
func TestTransactionsStayWholeUnderBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "a"))
		r := newRig(t, c, exactlyOnce("first"), func(cfg *Config) { cfg.Transactions.Interval = time.Millisecond })
		r.begin()
		slow := make(chan struct{})
		c.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
			<-slow
			return nil, nil, false
		})
		r.produceAt("a", "k")
		r.Mark()
		r.Flush()
		require.Eventually(t,
			func() bool { r.Producer.mu.Lock(); defer r.Producer.mu.Unlock(); return r.tx.filling != r.tx.live },
			testPatience, time.Millisecond)
		r.produceAt("a", "k") // the first half of an upstream transaction
		r.Full()
		close(slow)
		require.Eventually(t, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.acked) == 1 }, testPatience,
			time.Millisecond)
		require.Len(t, committed(t, c, "a", 1), 1, "the half is not seen")
		r.produceAt("a", "k")
		r.Mark()
		r.Flush()
		require.Len(t, committed(t, c, "a", 3), 3)

		r.produceAt("a", "k") // alone in the window: nothing else makes room
		require.Eventually(t, func() bool {
			r.Full()
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.acked) == 4
		}, testPatience, time.Millisecond)
		r.checkCommitted()
	})
}

// Nothing is acknowledged before the commit, and what a crash leaves open is not seen by any consumer.
func TestTransactionOfADeadInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(2, "a"))
		r := newRig(t, c, exactlyOnce("first"))
		r.begin()
		r.transact(20, "a")
		r.drain()
		for range 30 {
			r.produceAt("a", fmt.Sprint("k", r.ticket%3))
		}
		r.Flush()
		require.Eventually(t, func() bool {
			r.lock()
			defer r.Producer.mu.Unlock()
			return r.tx.live.acked == 30
		}, testPatience, time.Millisecond)
		r.mu.Lock()
		require.Len(t, r.acked, 20)
		r.mu.Unlock()
		r.stop()
		<-r.stopped

		second := newRig(t, c, exactlyOnce("second"))
		s, _ := second.begin()
		require.EqualValues(t, 20, s.Commit)
		second.ticket = 20
		second.sent["a"] = slices.Clone(r.sent["a"][:20])
		second.transact(30, "a")
		second.drain()
		require.Equal(t, byKey(second.sent["a"]), byKey(committed(t, c, "a", 50)))
	})
}

// A second instance fences the first, which sends nothing more until it begins again: then it fences the second, and
// knows what that has committed. So it goes on for as long as the two like.
//
// Bug (producer): An instance that was fenced ended with exit 3, and the epoch was raised once in the life of a
// process. Cost: an `exactly_once` pair in which no instance ran after its second change of hands.
func TestTransactionFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(2, "a"))
		pair := [2]*rig{newRig(t, c, exactlyOnce("first")), newRig(t, c, exactlyOnce("second"))}
		var all []string
		for turn := range 6 {
			r, other := pair[turn%2], pair[(turn+1)%2]
			r.Abandon()
			s, found := r.begin()
			require.Equal(t, turn > 0, found)
			require.EqualValues(t, len(all), s.Commit)
			r.ticket = uint64(len(all))
			r.sent["a"] = nil
			r.transact(20, "a")
			r.drain()
			all = append(all, r.sent["a"]...)
			if turn == 0 {
				continue
			}
			other.transact(1, "a")
			ctx, cancel := context.WithTimeout(t.Context(), testPatience)
			require.ErrorIs(t, other.Drain(ctx), sink.ErrFenced)
			cancel()
			fenced := testutil.ToFloat64(pair[0].metrics.fenced) + testutil.ToFloat64(pair[1].metrics.fenced)
			require.EqualValues(t, turn, fenced)
		}
		require.Equal(t, byKey(all), byKey(committed(t, c, "a", len(all))))
	})
}

// answerOnce answers the next request of the key with the code, instead of the work.
func answerOnce(c *kfake.Cluster, key kmsg.Key, code int16) *atomic.Int32 {
	var hits atomic.Int32
	c.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		hits.Add(1)
		return refusalOf(req, code), nil, true
	})
	return &hits
}

// refusalOf is the answer with the code for all that the request names.
func refusalOf(req kmsg.Request, code int16) kmsg.Response {
	res := req.ResponseKind()
	res.SetVersion(req.GetVersion())
	switch res := res.(type) {
	case *kmsg.AddPartitionsToTxnResponse:
		for _, t := range req.(*kmsg.AddPartitionsToTxnRequest).Topics {
			rt := kmsg.NewAddPartitionsToTxnResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p, code
				rt.Partitions = append(rt.Partitions, rp)
			}
			res.Topics = append(res.Topics, rt)
		}
	case *kmsg.AddOffsetsToTxnResponse:
		res.ErrorCode = code
	case *kmsg.EndTxnResponse:
		res.ErrorCode = code
	case *kmsg.InitProducerIDResponse:
		res.ErrorCode = code
	case *kmsg.TxnOffsetCommitResponse:
		for _, t := range req.(*kmsg.TxnOffsetCommitRequest).Topics {
			rt := kmsg.NewTxnOffsetCommitResponseTopic()
			rt.Topic = t.Topic
			rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			rp.ErrorCode = code
			rt.Partitions = append(rt.Partitions, rp)
			res.Topics = append(res.Topics, rt)
		}
	case *kmsg.OffsetFetchResponse:
		res.ErrorCode = code
	case *kmsg.FindCoordinatorResponse:
		res.ErrorCode = code
	}
	return res
}

// The answer to EndTxn is lost after the commit: the same is asked again, and nothing is sent twice.
func TestTransactionEndUnknown(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprint("committed ", after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, kfake.SeedTopics(2, "a"))
				r := newRig(t, c, exactlyOnce("first"))
				r.begin()
				r.transact(50, "a")
				r.drain()
				hits := answer(t, c, kmsg.EndTxn, lostAnswer, after)
				r.transact(50, "a")
				r.transact(50, "a")
				r.checkCommitted()
				require.EqualValues(t, 1, hits.Load())
				require.Zero(t, testutil.ToFloat64(r.metrics.transactions.WithLabelValues("aborted")))
			})
		})
	}
}

// The position waits for the first batch of each partition: while the leader asks the coordinator about the batch, the
// broker cannot ask about the position, and one of the two fails.
//
// Bug (producer): The position of a transaction was sent while leaders still asked the coordinator about its
// partitions: a broker has one question about a transactional id at a time, and refused up to 40 of the batches of a
// million rows. Cost: each refused partition waited 25 to 50 ms, and all others with it: the reader stood for up to 80
// ms.
func TestThePositionWaitsForTheLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(3, "a"))
		r := newRig(t, c, exactlyOnce("first"))
		r.begin()
		var asking, early, positions atomic.Int32
		came := make(chan struct{}, 1)
		c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			asking.Add(1)
			c.SleepControl(func() {
				select {
				case <-came:
				case <-time.After(20 * time.Millisecond):
				}
			})
			asking.Add(-1)
			return nil, nil, false
		})
		c.ControlKey(int16(kmsg.TxnOffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			positions.Add(1)
			early.Add(asking.Load())
			poke(came)
			return nil, nil, false
		})
		for range 3 {
			r.transact(7, "a")
			r.drain()
		}
		r.checkCommitted()
		require.GreaterOrEqual(t, positions.Load(), int32(3))
		require.Zero(t, early.Load())
	})
}

// An EndTxn whose connection was cut arrives after all, when the next transaction has records. It does not commit them.
//
// Bug (monitor): With exactly_once, an `EndTxn` whose connection was cut could arrive when the next transaction had
// records. Cost: records that consumers see without their position, and once more after a restart. Also:
// `TestRealEndTxnArrivesLate` in `internal/sink/kafka`, e2e.
func TestEndTxnArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(2, "a"))
		r := newRig(t, c, exactlyOnce("first"))
		r.begin()
		behind := oldClient(t, c)
		var late atomic.Pointer[kmsg.EndTxnRequest]
		c.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
			end := *req.(*kmsg.EndTxnRequest)
			late.Store(&end)
			return nil, fmt.Errorf("cut"), true
		})
		r.transact(50, "a")
		r.drain()
		refused := make(chan error, 1)
		c.ControlKey(int16(kmsg.TxnOffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.SleepControl(func() {
				res, err := late.Load().RequestWith(context.Background(), behind)
				if err == nil {
					err = kerr.ErrorForCode(res.ErrorCode)
				}
				refused <- err
			})
			return nil, nil, false
		})
		r.transact(50, "a")
		require.Error(t, <-refused)
		r.checkCommitted()
		require.Zero(t, testutil.ToFloat64(r.metrics.transactions.WithLabelValues("aborted")))
		require.EqualValues(t, 1, testutil.ToFloat64(r.metrics.epochBumps))
	})
}

// The coordinator aborted the transaction because it was open for too long, and raised the epoch as if another producer
// had fenced ours. It is read again, since no other may have been there.
func TestTransactionTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(2, "a"))
		r := newRig(t, c, exactlyOnce("first"), func(cfg *Config) { cfg.Transactions.Timeout = 2 * time.Second })
		r.begin()
		r.transact(50, "a")
		r.drain()
		var held atomic.Bool
		held.Store(true)
		c.ControlKey(int16(kmsg.TxnOffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
			if held.Load() {
				c.KeepControl()
				return nil, fmt.Errorf("cut"), true
			}
			return nil, nil, false
		})
		r.transact(50, "a")
		time.Sleep(4 * time.Second)
		held.Store(false)
		r.transact(50, "a")
		r.checkCommitted()
		require.EqualValues(t, 1, testutil.ToFloat64(r.metrics.transactions.WithLabelValues("aborted")))
	})
}

func TestBeginWaits(t *testing.T) {
	for key, code := range map[kmsg.Key]int16{kmsg.InitProducerID: 51, kmsg.OffsetFetch: 88} {
		t.Run(key.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, kfake.SeedTopics(2, "a"))
				hits := answerOnce(c, key, code)
				r := newRig(t, c, exactlyOnce("first"))
				r.begin()
				require.EqualValues(t, 1, hits.Load())
				r.transact(20, "a")
				r.checkCommitted()
			})
		})
	}
}

// TestPositionTopicDeleted: an operator tidies up and deletes the empty topic. It is made again.
//
// Bug (producer): The positions topic was deleted while the producer ran, and never re-created. Cost: exactly once made
// no progress until a restart.
func TestPositionTopicDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "a"))
		r := newRig(t, c, exactlyOnce("first")).start()
		r.transact(10, "a")
		r.drain()
		req := kmsg.NewPtrDeleteTopicsRequest()
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = kmsg.StringPtr("cdc-outbox.positions")
		req.Topics, req.TopicNames = append(req.Topics, topic), []string{"cdc-outbox.positions"}
		res, err := req.RequestWith(t.Context(), adminClient(t, c))
		require.NoError(t, err)
		require.Zero(t, res.Topics[0].ErrorCode)
		r.transact(10, "a")
		r.checkCommitted()
		require.Empty(t, r.Trouble())
	})
}

// TestTransactionsUnderChaos: connections break at random while transactions go on.
func TestTransactionsUnderChaos(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(4, "a", "b"))
		d := newFaultDial()
		r := newRig(t, c, exactlyOnce("first"), func(cfg *Config) {
			cfg.Dial = d.dial
			cfg.MaxBatchBytes, cfg.MaxRequestBytes = 600, 2000
			cfg.Transactions.Interval = 5 * time.Millisecond
		})
		r.begin()
		for i := range fewer(60) {
			r.transact(100, "a", "b")
			switch i % 6 {
			case 2:
				d.cutAll()
			case 4:
				answerOnce(c, kmsg.AddPartitionsToTxn, 48)
			case 5:
				_ = c.MoveTopicPartition("a", int32(i%4), int32(i%3))
			}
			time.Sleep(10 * time.Millisecond)
		}
		r.checkCommitted()
	})
}

func produceFault(code int16, when func() bool) kfake.Fault {
	return kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Err: &kerr.Error{Code: code, Message: wire.VerdictOf(code).Name},
		When: func(kmsg.Request) bool { return when() },
	}
}
