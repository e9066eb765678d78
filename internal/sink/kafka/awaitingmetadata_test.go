package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// awaiting has Produce wait for topics that it meets for the first time.
func awaiting(cfg *Config) { cfg.AwaitTopics = true }

// take produces a record and reports an error of a Produce that waited.
func (r *rig) take(topic, key string, partition int32) {
	r.t.Helper()
	r.ticket++
	value := fmt.Sprintf("%s:%08d", key, r.ticket)
	ctx, cancel := context.WithCancel(r.t.Context())
	cancel() // so Produce fails where it waits
	require.NoError(r.t, r.give(ctx, &router.Record{
		Topic: topic, Partition: partition, Key: []byte(key), Value: []byte(value), Timestamp: 1700000000000,
		Headers: []router.Header{{Key: "id", Value: []byte(value)}},
	}))
	r.sent[topic] = append(r.sent[topic], value)
}

// metadataGate holds metadata requests back until it is opened, and notes the topics of each request.
type metadataGate struct {
	mu    sync.Mutex
	asked [][]string
	open  chan struct{}
}

func gateMetadata(t *testing.T, c *kfake.Cluster) *metadataGate {
	t.Helper()
	g := &metadataGate{open: make(chan struct{})}
	c.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		names := []string{}
		for _, topic := range req.(*kmsg.MetadataRequest).Topics {
			names = append(names, *topic.Topic)
		}
		if len(names) == 0 {
			return nil, nil, false // of a connection that opens
		}
		g.mu.Lock()
		g.asked = append(g.asked, names)
		g.mu.Unlock()
		c.SleepControl(func() { <-g.open })
		return nil, nil, false
	})
	return g
}

func (g *metadataGate) requests() [][]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.asked)
}

func manyNames(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("topic-%03d", i))
	}
	return names
}

// TestNewTopicsAreAskedForTogether: Produce waits for no topic, and all that it met during one metadata request are in
// the next.
//
// Bug (producer): Each topic met for the first time stopped the reading for a metadata round of 50 ms, one after the
// other. Cost: a backlog for 300 topics began with 18 seconds at 18 rows/s, after each restart again.
func TestNewTopicsAreAskedForTogether(t *testing.T) {
	for mode, change := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				names := manyNames(40)
				c := newCluster(t, kfake.SeedTopics(3, names...))
				r := newRig(t, c, change).start()
				g := gateMetadata(t, c)
				r.take(names[0], "k", -1)
				require.Eventually(t, func() bool { return len(g.requests()) == 1 }, testPatience, testTick)
				for range 5 {
					for i, name := range names {
						r.take(name, fmt.Sprint("k", i%3), -1)
					}
				}
				r.whole()
				close(g.open)
				r.drain()
				asked := g.requests()
				for _, name := range names {
					require.Equal(t, byKey(r.sent[name]), byKey(r.log(name, len(r.sent[name]))), name)
				}
				r.checkAcks()
				require.Equal(t, names[:1], asked[0])
				require.Equal(t, names[1:], asked[1], "what is known is not asked for again")
				require.LessOrEqual(t, len(asked), 3)
			})
		})
	}
}

// TestAMissingTopicAmongOthers: without transactions the others go on. With transactions, what is older is committed.
func TestAMissingTopicAmongOthers(t *testing.T) {
	for mode, change := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, kfake.SeedTopics(2, "a", "b"))
				r := newRig(t, c, change).start()
				produce := func(topic, key string) { // in a transaction, older records of placed topics are waited for
					r.ticket++
					value := fmt.Sprintf("%s:%08d", key, r.ticket)
					require.NoError(t, r.ProduceAt(t.Context(), &router.Record{
						Topic: topic, Partition: -1, Key: []byte(key), Value: []byte(value), Timestamp: 1700000000000,
					}, r.ticket, at(r.ticket)))
					r.sent[topic] = append(r.sent[topic], value)
				}
				acked := func(n int) func() bool {
					return func() bool {
						r.Flush()
						r.mu.Lock()
						defer r.mu.Unlock()
						return len(r.acked) == n
					}
				}
				produce("a", "k")
				r.whole()
				r.drain()
				produce("a", "k")
				produce("missing", "k")
				for i := range 30 {
					produce("a", fmt.Sprint("k", i%4))
					produce("b", fmt.Sprint("k", i%4))
					produce("missing", fmt.Sprint("k", i%4))
				}
				r.whole()
				before := 62
				if r.tx != nil {
					before = 2
				}
				require.Eventually(t, acked(before), testPatience, testTick)
				require.Eventually(t, func() bool {
					return slices.ContainsFunc(r.Trouble(),
						func(tr sink.Trouble) bool { return tr.Kind == sink.TopicMissing })
				}, testPatience, testTick)
				if r.tx != nil {
					require.Len(t, r.log("a", 2), 2, "the rest is not begun in Kafka")
				}
				require.NoError(t, c.CreateTopic("missing", 3, nil))
				r.drain()
				for topic, sent := range r.sent {
					require.Equal(t, byKey(sent), byKey(r.log(topic, len(sent))), topic)
				}
				r.checkAcks()
				require.Empty(t, r.Trouble())
			})
		})
	}
}

// TestUnplacedRecordOfAPartitionThatDoesNotExist: it is for the policy, and what comes after it in the topic follows.
func TestUnplacedRecordOfAPartitionThatDoesNotExist(t *testing.T) {
	for mode, change := range modes {
		for _, action := range []string{"dropped", "replaced", "waited for"} {
			t.Run(mode+" "+action, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, kfake.SeedTopics(2, "t", "dead"))
					r := newRig(t, c, change).start()
					var asked []sink.RefusedError
					r.policy = func(rec *router.Record, err *sink.RefusedError) *router.Record {
						asked = append(asked, *err)
						switch action {
						case "dropped":
							return drop
						case "replaced":
							return &router.Record{Topic: "dead", Partition: -1, Value: rec.Value}
						}
						if len(asked) == 1 {
							addPartitions(t, c, "t", 6)
						}
						return nil
					}
					g := gateMetadata(t, c)
					r.take("t", "a", 0)
					r.take("t", "b", 1)
					r.take("t", "stray", 5)
					r.take("t", "a", 0)
					r.take("t", "b", 1)
					r.whole()
					close(g.open)
					stray, window := r.sent["t"][2], r.size("t")
					want := slices.Delete(slices.Clone(r.sent["t"]), 2, 3)
					if action == "waited for" {
						want = r.sent["t"]
					}
					r.drain()
					require.Equal(t, byKey(want), byKey(r.log("t", len(want))))
					if action == "replaced" {
						require.Equal(t, []string{stray}, r.log("dead", 1))
					}
					r.checkTickets()
					require.Equal(t, window, r.bytes)
					require.Empty(t, r.Trouble())
					require.Equal(t, sink.RefusedError{
						Topic: "t", Reason: sink.NoPartition, Partition: 5, Partitions: 2,
					}, asked[0])
				})
			})
		}
	}
}

// size is what the records of the topic take in the window.
func (r *rig) size(topic string) (n int64) {
	for _, v := range r.sent[topic] {
		key := v[:len(v)-9]
		rec := router.Record{
			Key: []byte(key), Value: []byte(v), Headers: []router.Header{{Key: "id", Value: []byte(v)}},
		}
		n += int64(rec.Size())
	}
	return n
}

// checkTickets: each came back once.
func (r *rig) checkTickets() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Len(r.t, r.acked, int(r.ticket))
	for ticket, n := range r.acked {
		require.Equal(r.t, 1, n, "acks of ticket %d", ticket)
	}
}

// TestUnplacedRecordThatIsTooLarge: its topic's limit is known only after it was taken.
func TestUnplacedRecordThatIsTooLarge(t *testing.T) {
	for mode, change := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, kfake.SeedTopics(1, "t"))
				limit(t, c, "t", "2000")
				r := newRig(t, c, change).start()
				var asked []sink.RefusedError
				r.policy = func(_ *router.Record, err *sink.RefusedError) *router.Record {
					asked = append(asked, *err)
					return drop
				}
				g := gateMetadata(t, c)
				r.put("t", []byte("a"))
				r.put("t", noise(5000))
				r.put("t", []byte("b"))
				r.whole()
				close(g.open)
				r.drain()
				require.Len(t, asked, 1)
				require.Equal(t, sink.TooLarge, asked[0].Reason)
				require.Equal(t, []string{"a", "b"}, r.log("t", 2))
				r.checkTickets()
			})
		})
	}
}

// TestMissingTopicsAreCreatedInPortions: a controller refuses a request with too many partitions.
func TestMissingTopicsAreCreatedInPortions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		most := 0
		c.ControlKey(int16(kmsg.CreateTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			n := 0
			for _, topic := range req.(*kmsg.CreateTopicsRequest).Topics {
				n += int(topic.NumPartitions)
			}
			most = max(most, n)
			return nil, nil, false
		})
		r := newRig(t, c, func(cfg *Config) {
			cfg.CreateTopic = func(string) wire.TopicSettings {
				return wire.TopicSettings{Partitions: createdAtOnce / 3, ReplicationFactor: 1}
			}
		})
		for _, name := range manyNames(8) {
			r.take(name, "k", -1)
		}
		r.check()
		require.LessOrEqual(t, most, createdAtOnce)
		require.Empty(t, r.Trouble())
	})
}

// TestUnplacedRecordsAreGivenUp with everything else.
func TestUnplacedRecordsAreGivenUp(t *testing.T) {
	for _, mode := range []string{"owned", "transactions"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, kfake.SeedTopics(1, "t"))
				r := newRig(t, c, modes[mode]).start()
				r.take("missing", "k", -1)
				r.take("missing", "k", -1)
				r.whole()
				require.Eventually(t, func() bool { return len(r.Trouble()) == 1 }, testPatience, testTick)
				dropped := r.Abandon()
				require.Equal(t, sink.Dropped{Records: 2, Bytes: r.size("missing")}, dropped)
				r.begin()
				r.ticket, r.sent = 0, map[string][]string{}
				r.take("t", "k", -1)
				r.whole()
				r.drain()
				require.Equal(t, r.sent["t"], r.log("t", 1))
			})
		})
	}
}

// TestARefreshAsksForAllAtLeisure: a missing topic is asked for alone, and does not put the refresh of the others off.
func TestARefreshAsksForAllAtLeisure(t *testing.T) {
	p := still(t)
	p.partitions(2)
	now := time.Now()
	require.Equal(t, []string{"t"}, p.control.namesToAsk(p.topics, now))
	p.topic("missing")
	for i := range 3 {
		require.Equal(t, []string{"missing"}, p.control.namesToAsk(p.topics, now.Add(time.Duration(i)*time.Second)))
		require.Equal(t, now.Add(p.cfg.MetadataInterval), p.control.metaAt)
	}
	require.Equal(t, []string{"missing", "t"}, p.control.namesToAsk(p.topics, now.Add(p.cfg.MetadataInterval)))
	p.control.wantMetadata()
	require.Equal(t, []string{"missing", "t"}, p.control.namesToAsk(p.topics, now.Add(p.cfg.MetadataInterval+1)))
}
