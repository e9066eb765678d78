package kafka

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

func TestTopicAppears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		r := newRig(t, c)
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.produce("t", "k")
			r.Flush()
		}()
		require.Eventually(t, func() bool {
			ts := r.Trouble()
			return len(ts) == 1 && ts[0].Kind == sink.TopicMissing && ts[0].Object == `topic "t"` &&
				slices.Equal(ts[0].Commands,
					[]string{"kafka-topics.sh --bootstrap-server " + r.cfg.Brokers[0] +
						" --create --topic t --partitions 12"})
		}, testPatience, time.Millisecond)
		require.NoError(t, c.CreateTopic("t", 3, nil))
		<-done
		r.check()
		require.Empty(t, r.Trouble())
	})
}

// TestTopicDeleted: under load, and re-created. What was acknowledged went with the topic; the rest is in the new
// one, in order, without a hole.
func TestTopicDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(2, "t"))
		r := newRig(t, c, func(cfg *Config) { cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 200 })
		r.burst()
		r.drain()
		r.sent = map[string][]string{}
		require.NoError(t, c.DeleteTopic("t"))
		r.loses = true
		r.burst()
		require.Eventually(t, func() bool {
			for _, x := range r.Trouble() {
				if x.Kind == sink.TopicMissing {
					return true
				}
			}
			return false
		}, testPatience, time.Millisecond)
		require.NoError(t, c.CreateTopic("t", 2, nil))
		r.burst()
		r.check()
		require.Empty(t, r.Trouble())
	})
}

// TestTopicReCreatedWithFewerPartitions: what waited for a partition that no longer exists goes to another one, in the
// order of its key, once, without a restart.
//
// Bug (producer): A topic was deleted and re-created with fewer partitions: what waited for the others waited for a
// restart. Cost: an outage, for some keys only.
func TestTopicReCreatedWithFewerPartitions(t *testing.T) {
	for mode, change := range modes {
		for _, n := range []int{1, 2} {
			t.Run(fmt.Sprint(mode, " ", n), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, kfake.SeedTopics(5, "t"))
					r := newRig(t, c, change, func(cfg *Config) {
						cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 200
					}).start()
					burst := func() {
						for i := range 100 {
							r.produceAt("t", fmt.Sprint("k", i%20))
							if i%5 == 4 {
								r.whole()
							}
						}
					}
					burst()
					r.drain()
					r.sent = map[string][]string{}
					require.NoError(t, c.DeleteTopic("t"))
					r.loses = true
					burst()
					require.Eventually(t, func() bool { return len(r.Trouble()) > 0 }, testPatience, testTick)
					require.NoError(t, c.CreateTopic("t", int32(n), nil))
					burst()
					r.drain()
					burst()
					r.drain()
					r.lock()
					left := len(r.topics["t"].partitions)
					r.Producer.mu.Unlock()
					require.Equal(t, n, left)
					require.Empty(t, r.Trouble())
					got := r.log("t", len(r.sent["t"]))
					require.ElementsMatch(t, r.sent["t"], got)
					if n == 1 { // otherwise keys have moved, and only time orders the records in two partitions
						require.Equal(t, byKey(r.sent["t"]), byKey(got))
					}
					require.Len(t, r.acked, int(r.ticket), "each ticket comes back")
				})
			})
		}
	}
}

// TestOneAnswerMovesNothing: a broker that has not heard of added partitions must not be believed.
func TestOneAnswerMovesNothing(t *testing.T) {
	p, err := New(Config{
		Cluster:   wire.Cluster{Brokers: []string{"127.0.0.1:1"}},
		Callbacks: sink.Callbacks{Acked: func(sink.Delivery) {}},
	})
	require.NoError(t, err)
	topic := p.topic("t")
	topic.adopt(5)
	for range 2 * fewerAnswers {
		p.shrink(topic, 2)
		require.True(t, topic.ready())
		require.Len(t, topic.partitions, 5)
	}
	topic.fewerAt = topic.fewerAt.Add(-p.cfg.pace.slow)
	p.shrink(topic, 2)
	require.Len(t, topic.partitions, 2)
}

// TestLeaderLostInFlight: records that come back from the wire to a partition without a leader ask for one at once.
//
// Bug (producer): A partition whose leader went away while its batches were in flight asked for no other leader. Cost:
// records wait up to `MetadataInterval` (30 s) after a topic was re-created.
func TestLeaderLostInFlight(t *testing.T) {
	p, err := New(Config{
		Cluster:   wire.Cluster{Brokers: []string{"127.0.0.1:1"}},
		Callbacks: sink.Callbacks{Acked: func(sink.Delivery) {}},
	})
	require.NoError(t, err)
	topic := p.topic("t")
	topic.adopt(1)
	part := topic.partitions[0]
	part.broker = &broker{cancel: func(error) {}}
	b := newBatch(part)
	b.append(&router.Record{Topic: "t", Value: []byte("v")}, 1, math.MaxInt)
	part.queued, part.pending = []*batch{b}, b.size()
	part.take(identity{id: 1})
	p.lead(part, nil, 0)
	p.control.metaAt = later(p.cfg.MetadataInterval)
	p.resolve(b, wire.VerdictOf(wire.UnknownTopic))
	require.Equal(t, []*batch{b}, part.queued)
	require.WithinDuration(t, time.Now(), p.control.metaAt, p.cfg.MetadataInterval/2)
}

// TestTopicDeletedOnPurpose: nothing waits for it, so nothing reports it, until a record comes.
//
// Bug (producer): A topic that was deleted on purpose stayed in `waits_for`. Cost: a cause that was none.
func TestTopicDeletedOnPurpose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t"))
		r := newRig(t, c, func(cfg *Config) { cfg.MetadataInterval = 5 * time.Millisecond })
		r.produce("t", "k")
		r.drain()
		require.NoError(t, c.DeleteTopic("t"))
		r.loses = true
		require.Never(t, func() bool { return len(r.Trouble()) > 0 }, 200*time.Millisecond, testTick)
		r.sent = map[string][]string{}
		r.produce("t", "k")
		r.Flush()
		require.Eventually(t, func() bool { return len(r.Trouble()) > 0 }, testPatience, testTick)
		require.NoError(t, c.CreateTopic("t", 1, nil))
		r.check()
		require.Empty(t, r.Trouble())
	})
}

// TestRefresh: records after it go where their keys are now, however long the next answer of metadata is away.
//
// Bug (producer): After a pause the producer used the partitions that it knew from before, for up to 30 s. Cost: the
// runbook's way to add partitions, pause and wait for the groups, did not keep the order of a key's events of these
// seconds. Also: `TestPartitionsAreAddedInAPause` in `cmd/cdc-outbox`.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t"))
		r := newRig(t, c, func(cfg *Config) { cfg.MetadataInterval = time.Hour })
		r.produce("t", "k0")
		r.drain()
		addPartitions(t, c, "t", 8)
		r.Refresh()
		for i := range 40 {
			r.produce("t", fmt.Sprint("k", i))
		}
		r.drain()
		r.checkAcks()
		for i := range 40 {
			require.Contains(t, r.order, fmt.Sprint("t/", partitionOf([]byte(fmt.Sprint("k", i)), 8)))
		}
		require.Len(t, r.Grown(), 1)
	})
}

// TestRefreshBeforeTheFirstTopic: metadata that was wanted while there was no topic is asked for when there is one, and
// not only after MetadataInterval.
//
// Bug (monitor): Metadata that was wanted while there was no topic was not asked for when the first one came. Cost: the
// first event after a pause, or after a start with `source: polling`, waited for up to 30 s.
func TestRefreshBeforeTheFirstTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t"))
		r := newRig(t, c, func(cfg *Config) { cfg.MetadataInterval = time.Hour })
		r.Refresh()
		require.Eventually(t, func() bool {
			r.Producer.mu.Lock()
			defer r.Producer.mu.Unlock()
			return r.id.valid() && len(r.control.wake) == 0
		}, testPatience, time.Millisecond)
		time.Sleep(20 * time.Millisecond) // the goroutine that asks has nothing to do now, and nothing shows it
		r.produce("t", "k")
		r.drain()
	})
}

// TestPartitionsAdded: the newer records of a key go to another partition only when the older ones are acknowledged.
//
// Bug (producer): A partition that did not exist yet was looked up only every half minute. Cost: events waited 30 s.
func TestPartitionsAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t"))
		r := newRig(t, c, func(cfg *Config) {
			cfg.MetadataInterval = 20 * time.Millisecond
			cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 200
		})
		for i := range 500 {
			switch i {
			case 100:
				addPartitions(t, c, "t", 8)
			case 300: // the rest has somewhere to go
				require.Eventually(t, func() bool { return len(r.Grown()) == 1 }, testPatience, testTick)
			}
			r.produce("t", fmt.Sprint("k", i%20))
			if i%10 == 0 {
				r.Flush()
				time.Sleep(time.Millisecond)
			}
		}
		r.drain()
		r.checkAcks()
		require.Greater(t, len(r.order), 4, "the new partitions are used")
		got := r.read("t")
		require.Len(t, got, 500)
		grown := r.Grown()
		require.Len(t, grown, 1)
		require.Equal(t, sink.Growth{
			Topic: "t", Before: 1, Now: 8, At: grown[0].At, Next: grown[0].Next, Commands: grown[0].Commands,
		}, grown[0])
		require.Contains(t, grown[0].Next, "no group that reads the topic has lag")
		require.Contains(t, grown[0].Commands, "cdc-outbox pause --reason 'partitions were added to t'")
	})
}
