package kafka

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// coordination is what Kafka's coordinator does with a producer's own epoch and the stand-in does not: it refuses one
// that is not the latest, except a repeat of the request that made the latest (TransactionMetadata,
// prepareIncrementProducerEpoch).
type coordination struct {
	mu     sync.Mutex
	latest int16
	last   int16 // the epoch that was exchanged for latest, -1 after a producer that had none
	asked  int   // requests with an epoch of their own
}

func coordinated(c *kfake.Cluster) *coordination {
	x := &coordination{latest: -1, last: -1}
	c.ControlKey(int16(kmsg.InitProducerID), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.InitProducerIDRequest)
		if req.TransactionalID == nil {
			return nil, nil, false
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		if req.ProducerID < 0 {
			x.latest, x.last = x.latest+1, -1
			return nil, nil, false
		}
		x.asked++
		switch req.ProducerEpoch {
		case x.latest:
			x.latest, x.last = x.latest+1, x.latest
			return nil, nil, false
		case x.last:
			res := req.ResponseKind().(*kmsg.InitProducerIDResponse)
			res.ProducerID, res.ProducerEpoch = req.ProducerID, x.latest
			return res, nil, true
		}
		return refusalOf(req, wire.ProducerFenced), nil, true
	})
	return x
}

func (r *rig) keep() error {
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	return r.Keep(ctx)
}

func (r *rig) many(topic string) {
	r.t.Helper()
	for i := range 100 {
		r.produce(topic, fmt.Sprint("k", i%7))
	}
	r.Flush()
}

// whoIs is the identity that the partition's next sequence would get.
func (r *rig) whoIs() identity {
	r.lock()
	defer r.Producer.mu.Unlock()
	return r.id
}

// Without transactions an owner's batches are plain ones under the transactional id's producer id, and nothing is sent
// before Begin.
func TestOwnedSendsPlainBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "a"))
		coordinated(c)
		r := newRig(t, c, owned)
		r.produce("a", "k")
		r.Flush()
		time.Sleep(50 * time.Millisecond)
		require.Empty(t, r.read("a"))
		r.Abandon()
		r.ticket, r.sent = 0, map[string][]string{}
		r.begin()
		r.produce("a", "k")
		r.check()
		require.Len(t, committed(t, c, "a", 1), 1)
		require.Equal(t, int16(0), r.whoIs().epoch)
		r.stop()
		<-r.stopped

		second := newRig(t, c, owned).start()
		require.Equal(t, int16(1), second.whoIs().epoch)
	})
}

// A producer that was fenced learns it from the leader, sends nothing more, and gives up what it has.
//
// Bug (producer): The broker accepted what such an instance still had on the wire, or in a frozen process. Cost: the
// same.
func TestOwnedIsFencedByALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "a"))
		coordinated(c)
		var hits int
		first := newRig(t, c, owned, func(cfg *Config) { cfg.Ended = func(error) { hits++ } }).start()
		first.produce("a", "k")
		first.drain()
		second := newRig(t, c, owned).start()
		second.produce("a", "k")
		second.drain()

		for range 10 {
			first.produce("a", "k")
		}
		require.ErrorIs(t, first.Drain(t.Context()), sink.ErrFenced)
		require.ErrorIs(t, first.Produce(t.Context(), &router.Record{Topic: "a", Partition: -1}, 99), sink.ErrFenced)
		require.ErrorIs(t, first.keep(), sink.ErrFenced)
		require.Equal(t, 1, hits)
		require.Len(t, second.read("a"), 2)
		dropped := first.Abandon()
		require.Equal(t, 10, dropped.Records)
		require.Positive(t, dropped.Bytes)
		require.NoError(t, first.Drain(t.Context()), "nothing is left to wait for")

		first.begin()
		require.Equal(t, int16(2), first.whoIs().epoch)
		first.ticket = 1
		first.produce("a", "k")
		first.drain()
		require.Len(t, first.acked, 2)
		require.Len(t, first.read("a"), 3)
	})
}

// Keep raises the epoch only where no other producer did.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(2, "a"))
		x := coordinated(c)
		first := newRig(t, c, owned).start()
		first.many("a")
		require.NoError(t, first.keep())
		require.Equal(t, int16(1), first.whoIs().epoch)
		first.many("a")
		first.check()

		second := newRig(t, c, owned).start()
		require.Equal(t, int16(2), second.whoIs().epoch)
		require.ErrorIs(t, first.keep(), sink.ErrFenced)
		require.NoError(t, second.keep(), "the question has fenced no producer")
		require.Equal(t, 3, x.asked)
		require.InDelta(t, 1, testutil.ToFloat64(first.metrics.fenced), 0)
	})
}

// While the coordinator is asked, it may have raised our epoch already, so what a leader says of the old one is not
// judged before its answer.
//
// Bug (producer): A leader's refusal of the old epoch counted as another instance's takeover while the coordinator was
// still answering with the new epoch. Cost: the only instance stops and begins again.
func TestOwnedJudgesNoEpochWhileAsking(t *testing.T) {
	cfg := Config{
		Cluster: wire.Cluster{Brokers: []string{"127.0.0.1:1"}}, Owned: true,
		Callbacks: sink.Callbacks{Acked: func(sink.Delivery) {}},
	}
	p, err := New(cfg)
	require.NoError(t, err)
	topic := p.topic("t")
	topic.adopt(1)
	part := topic.partitions[0]
	p.own.identity, p.own.asked = identity{id: 1}, 1
	refuse := func() {
		part.inflight, part.queued = nil, []*batch{newBatch(part)}
		b := part.take(p.own.identity)
		p.resolve(b, wire.VerdictOf(wire.InvalidProducerEpoch))
	}
	refuse()
	require.NoError(t, p.ended)
	require.True(t, part.waiting)
	p.own.answered = 1
	refuse()
	require.ErrorIs(t, p.ended, sink.ErrFenced, "the answer brought no other epoch")
}

// A question whose answer was lost is asked again, and gets the same answer.
func TestKeepAgainAfterALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "a"))
		r := newRig(t, c, owned).start()
		x := coordinated(c)
		x.latest = 0
		hits := answer(t, c, kmsg.InitProducerID, lostAnswer, true)
		require.NoError(t, r.keep())
		require.EqualValues(t, 1, hits.Load())
		r.produce("a", "k")
		r.check()
	})
}

// When a leader has lost the sequence the next epoch is the coordinator's, not our own arithmetic: the next instance
// would get the same number.
//
// Bug (producer): The epoch after a lost sequence was computed, so the next instance could get the same one. Cost: two
// instances with one epoch, of which neither is fenced.
func TestOwnedEpochsAreTheCoordinators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "a"))
		x := coordinated(c)
		first := newRig(t, c, owned).start()
		first.produce("a", "k")
		first.drain()
		fault := c.Fault(produceFault(45, func() bool { return true }))
		first.produce("a", "k")
		first.check()
		require.EqualValues(t, 1, fault.Hits())
		require.Zero(t, x.asked, "a Begin takes the epoch above all others")
		second := newRig(t, c, owned).start()
		require.Greater(t, second.whoIs().epoch, first.whoIs().epoch)

		fault = c.Fault(produceFault(45, func() bool { return true }))
		first.produce("a", "k")
		require.ErrorIs(t, first.Drain(t.Context()), sink.ErrSessionOver,
			"whose the source is shows before the next epoch")
		require.EqualValues(t, 1, fault.Hits())
	})
}

// The coordinator has forgotten the id, so what it knows says nothing about other producers.
func TestOwnedIsFencedByAnotherProducerID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "a"))
		r := newRig(t, c, owned).start()
		c.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
			res := req.ResponseKind().(*kmsg.InitProducerIDResponse)
			res.ProducerID, res.ProducerEpoch = 1, 0
			return res, nil, true
		})
		require.ErrorIs(t, r.keep(), sink.ErrFenced)
	})
}

// A producer that was suspended for longer than leaders remember epochs asks before it sends.
func TestOwnedAsksBeforeItSendsAfterALongSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "a"))
		coordinated(c)
		first := newRig(t, c, owned).start()
		first.produce("a", "k")
		first.drain()
		newRig(t, c, owned).start() // it has written nothing, so no leader would refuse
		first.lock()
		first.own.renewed = first.own.renewed.Add(-renewLimit)
		first.Producer.mu.Unlock()
		first.produce("a", "k")
		require.ErrorIs(t, first.Drain(t.Context()), sink.ErrFenced)
		require.Len(t, first.read("a"), 1)
	})
}

// The coordinator is asked twice a day, so that it does not forget the id, and the sequences do not notice.
func TestOwnedRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "a"))
		x := coordinated(c)
		r := newRig(t, c, owned).start()
		r.lock()
		r.own.renewed = r.own.renewed.Add(-renewEvery)
		r.Producer.mu.Unlock()
		require.Eventually(t, func() bool { x.mu.Lock(); defer x.mu.Unlock(); return x.asked == 1 }, testPatience,
			testTick)
		r.produce("a", "k")
		r.check()
		require.Equal(t, int16(1), r.whoIs().epoch)
	})
}

// Where the right, the version or the coordinator is missing for good, a plain producer id does.
func TestOwnedSettlesForAPlainID(t *testing.T) {
	for name, test := range map[string]struct {
		key  kmsg.Key
		code int16
		opts []kfake.Opt
	}{
		"no right to write":    {kmsg.InitProducerID, wire.TransactionalIDAuthorizationFailed, nil},
		"no right to describe": {kmsg.FindCoordinator, wire.TransactionalIDAuthorizationFailed, nil},
		"no coordinator":       {kmsg.FindCoordinator, wire.CoordinatorNotAvailable, nil},
		"not supported":        {kmsg.InitProducerID, wire.UnsupportedVersion, nil},
		"too old":              {0, 0, []kfake.Opt{kfake.MaxVersions(kversion.V2_3_0())}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, append(test.opts, kfake.SeedTopics(1, "a"))...)
				if test.code != 0 {
					c.ControlKey(int16(test.key), func(req kmsg.Request) (kmsg.Response, error, bool) {
						c.KeepControl()
						if init, ok := req.(*kmsg.InitProducerIDRequest); ok && init.TransactionalID == nil {
							return nil, nil, false
						}
						return refusalOf(req, test.code), nil, true
					})
				}
				r := newRig(t, c, owned, func(cfg *Config) { cfg.pace.coordinator = 100 * time.Millisecond }).start()
				require.True(t, r.own.plain)
				r.produce("a", "k")
				r.check()
				require.NoError(t, r.keep())
				before := r.whoIs()
				require.Zero(t, r.Abandon().Records)
				r.begin()
				next, _ := before.bumped()
				require.Equal(t, next, r.whoIs(), "what may be on the wire is of an older epoch")
				r.produce("a", "k")
				r.check()
			})
		})
	}
}

// The right is taken away while the producer runs: it goes on, unprotected.
func TestOwnedLosesTheRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "a"))
		r := newRig(t, c, owned).start()
		r.produce("a", "k")
		r.drain()
		answerOnce(c, kmsg.InitProducerID, wire.TransactionalIDAuthorizationFailed)
		require.NoError(t, r.keep())
		r.produce("a", "k")
		r.check()
	})
}

// Abandon at any moment: nothing of what was given up is acknowledged, and what comes next is in order.
func TestAbandonUnderLoad(t *testing.T) {
	for mode, change := range modes {
		if mode == "idempotent" {
			continue
		}
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(4, "a"))
				d := newFaultDial()
				r := newRig(t, c, change, func(cfg *Config) {
					cfg.Dial = d.dial
					cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 900
				})
				for round := range 20 {
					r.start()
					for i := range 100 {
						r.produceAt("a", fmt.Sprint("k", i%7))
						r.Mark()
					}
					r.Flush()
					switch round % 4 {
					case 1:
						d.cutAll()
					case 2:
						_ = c.MoveTopicPartition("a", int32(round%4), int32(round/4%2))
					case 3:
						r.drain()
					}
					dropped := r.Abandon()
					require.NoError(t, r.Drain(t.Context()))
					r.mu.Lock()
					require.Equal(t, int(r.ticket), len(r.acked)+dropped.Records)
					for _, n := range r.acked {
						require.Equal(t, 1, n)
					}
					r.acked, r.order, r.bytes = map[uint64]int{}, map[string][]uint64{}, 0
					r.ticket, r.sent = 0, map[string][]string{}
					r.mu.Unlock()
				}
				r.start()
				r.transact(50, "a")
				r.drain()
				r.checkAcks()
				log := r.log("a", 50)
				for key, values := range byKey(r.sent["a"]) {
					got := byKey(log)[key]
					require.Equal(t, values, got[len(got)-len(values):], "the last records of %s", key)
				}
			})
		})
	}
}

// A Begin that its caller gave up comes to nothing, whenever the coordinator answers.
func TestBeginIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "a"))
		wait := make(chan struct{})
		asked := make(chan struct{})
		var once sync.Once // the second Begin may ask again
		c.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
			once.Do(func() { close(asked) })
			<-wait
			return nil, nil, false
		})
		r := newRig(t, c, owned)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; cancel() }()
		_, _, err := r.Begin(ctx, owner)
		require.ErrorIs(t, err, context.Canceled)
		close(wait)
		r.lock()
		require.False(t, r.own.begun)
		r.Producer.mu.Unlock()
		r.begin()
		r.produce("a", "k")
		r.check()
	})
}
