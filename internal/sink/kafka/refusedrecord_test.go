package kafka

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// put produces the value, in either mode, and returns the record's size in the window.
func (r *rig) put(topic string, value []byte) int64 {
	r.t.Helper()
	r.ticket++
	rec := &router.Record{
		Topic: topic, Partition: -1, Key: []byte("k"), Value: value, Timestamp: 1700000000000,
		Headers: []router.Header{{Key: "id", Value: fmt.Append(nil, r.ticket)}, {Key: "none"}},
	}
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	require.NoError(r.t, r.give(ctx, rec))
	return int64(rec.Size())
}

var modes = map[string]func(*Config){
	"idempotent": func(*Config) {}, "owned": owned, "transactions": exactlyOnce("first"),
}

func owned(cfg *Config) { cfg.Owned = true }

// whole ends an upstream transaction. Where a gate waits for requests in flight nothing may end before they are there.
func (r *rig) whole() {
	if n := len(r.given); n > 0 {
		r.given[n-1].whole = true
	}
	r.Mark()
	r.Flush()
}

// start begins where there is an owner.
func (r *rig) start() *rig {
	if r.own != nil {
		r.begin()
	}
	return r
}

// log is what a consumer of the mode sees of the topic.
func (r *rig) log(topic string, want int) []string {
	r.t.Helper()
	if r.tx != nil {
		return committed(r.t, r.cluster, topic, want)
	}
	return r.read(topic)
}

// poison makes the broker refuse a batch that holds a bad record.
func poison(c *kfake.Cluster, topic string, code int16) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Count: -1,
		Err: &kerr.Error{Code: code, Message: wire.VerdictOf(code).Name},
		When: func(req kmsg.Request) bool {
			for _, rt := range req.(*kmsg.ProduceRequest).Topics {
				for _, rp := range rt.Partitions {
					if rt.Topic == topic && bytes.Contains(rp.Records, []byte("bad")) {
						return true
					}
				}
			}
			return false
		},
	})
}

// TestRefused: single records in the middle of a stream that a broker refuses, with batches in flight. The neighbours
// are in the log in their order, once; refused records are dropped or replaced, or wait until the topic takes them;
// each ticket comes back once, and the window gets back what it gave.
//
// Bug (producer): A record larger than its topic allows, or one that breaks the topic's rules, blocked its partition
// forever. Cost: the slot did not advance.
func TestRefused(t *testing.T) {
	for mode, change := range modes {
		for _, code := range []int16{wire.MessageTooLarge, 18, 87, 32} {
			for _, action := range []string{"waited for", "dropped", "replaced"} {
				for _, bad := range [][]int{{1}, {20}, {60}, {3, 4, 30, 59}} {
					if testing.Short() && code != wire.MessageTooLarge && len(bad) == 1 {
						continue // the codes differ in what is asked, not in where the record is
					}
					t.Run(fmt.Sprintf("%s %s %s at %d", mode, wire.VerdictOf(code).Name, action, bad),
						func(t *testing.T) {
							t.Parallel()
							synctest.Test(t, func(t *testing.T) {
								testRefused(t, change, code, action, bad)
							})
						})
				}
			}
		}
	}
}

func testRefused(t *testing.T, mode func(*Config), code int16, action string, bad []int) {
	c := newCluster(t, kfake.SeedTopics(1, "t", "dead"))
	fault := poison(c, "t", code)
	r := newRig(t, c, mode, func(cfg *Config) {
		cfg.MaxBatchBytes, cfg.MaxRequestBytes, cfg.KeepTimestamps = 600, 200, true
	}).start()
	asked := map[string]sink.RefusedError{} // by value
	r.policy = func(rec *router.Record, err *sink.RefusedError) *router.Record {
		asked[string(rec.Value)] = *err
		switch action {
		case "dropped":
			return drop
		case "replaced":
			value := append([]byte("dead "), rec.Value...)
			return &router.Record{Topic: "dead", Partition: -1, Key: rec.Key, Value: value}
		}
		fault.Remove()
		alter(t, c, "t", "retention.ms", fmt.Sprint(time.Hour.Milliseconds())) // whatever it is that makes it take them
		return nil
	}
	r.put("t", []byte("first"))
	r.drain()
	window := r.bytes

	r.gate(3)
	want, dead := []string{"first"}, []string(nil)
	for i := range 61 {
		value := fmt.Sprintf("good %02d", i)
		if slices.Contains(bad, i) {
			value = fmt.Sprintf("bad %02d", i)
		}
		window += r.put("t", []byte(value))
		switch {
		case value[0] == 'g' || action == "waited for":
			want = append(want, value)
		case action == "replaced":
			dead = append(dead, "dead "+value)
		}
	}
	r.whole()
	r.drain()

	require.Equal(t, want, r.log("t", len(want)))
	require.Equal(t, dead, r.log("dead", len(dead)))
	require.Equal(t, window, r.bytes)
	require.Len(t, r.acked, int(r.ticket))
	for ticket, n := range r.acked {
		require.Equal(t, 1, n, "acks of ticket %d", ticket)
	}
	require.Empty(t, r.Trouble())

	sessions := testutil.ToFloat64(r.metrics.epochBumps)
	if action == "waited for" {
		require.EqualValues(t, 1, sessions)
	} else {
		require.EqualValues(t, len(bad), sessions, "one ends at each record")
	}

	if action != "waited for" {
		require.Len(t, asked, len(bad))
	}
	for _, q := range asked {
		if code == wire.MessageTooLarge || code == 18 {
			require.Equal(t, sink.TooLarge, q.Reason)
			require.Positive(t, q.Bytes)
			require.Positive(t, q.Limit)
			require.NotEmpty(t, q.Remedy.Commands)
			continue
		}
		require.Equal(t, sink.InvalidRecord, q.Reason)
		require.Contains(t, q.Sentence, wire.VerdictOf(code).Name)
		require.NotEmpty(t, q.Remedy.Next)
	}
}

// TestRefusedLimit: the topic's own limit, lowered while records fly, with compression: what does not fit any more is
// replaced.
func TestRefusedLimit(t *testing.T) {
	for mode, change := range modes {
		for _, compression := range []string{"none", "gzip", "zstd"} {
			t.Run(mode+" "+compression, func(t *testing.T) {
				t.Parallel()
				inBubble(t, compression, func(t *testing.T) {
					c := newCluster(t, kfake.SeedTopics(1, "t", "dead"))
					r := newRig(t, c, change, func(cfg *Config) {
						cfg.MaxBatchBytes, cfg.MaxRequestBytes, cfg.Compression = 20_000, 20_000, compression
					}).start()
					r.policy = func(rec *router.Record, err *sink.RefusedError) *router.Record {
						assert.Equal(t, 10_000, err.Limit)
						assert.Greater(t, err.Bytes, err.Limit)
						assert.Equal(t, noise(30_000), rec.Value)
						return &router.Record{Topic: "dead", Key: rec.Key, Value: []byte("too large")}
					}
					r.put("t", []byte("first"))
					r.drain()
					limit(t, c, "t", "10000")
					all := make(chan struct{})
					c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
						<-all // taken: by the first answer the producer may know the new limit
						return nil, nil, false
					})
					var want []string
					for i := range 201 {
						value := string(noise(1000 + i))
						if i == 100 {
							value = string(noise(30_000))
						} else {
							want = append(want, value)
						}
						r.put("t", []byte(value))
					}
					r.whole()
					require.Eventually(t, func() bool { return r.inFlight() == 5 }, testPatience, time.Millisecond)
					close(all)
					r.drain()
					require.Equal(t, want, r.log("t", 201)[1:])
					require.Equal(t, []string{"too large"}, r.log("dead", 1))
					require.Empty(t, r.Trouble())
				})
			})
		}
	}
}

// TestRefusedReplacementWaits: the dead letters' topic does not exist yet. The refused record stays where it is until
// it does.
func TestRefusedReplacementWaits(t *testing.T) {
	for mode, change := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, kfake.SeedTopics(1, "t", "other"))
				poison(c, "t", 87)
				r := newRig(t, c, change).start()
				r.policy = func(rec *router.Record, _ *sink.RefusedError) *router.Record {
					return &router.Record{Topic: "dead", Partition: -1, Value: rec.Value}
				}
				for _, v := range []string{"a", "bad", "b"} {
					r.put("t", []byte(v))
				}
				r.put("other", []byte("c"))
				r.whole()
				drained := make(chan struct{})
				go func() {
					defer close(drained)
					r.drain()
				}()
				require.Eventually(t, func() bool {
					return slices.ContainsFunc(r.Trouble(), func(tr sink.Trouble) bool {
						return tr.Kind == sink.TopicMissing &&
							strings.Contains(tr.Object, "dead")
					})
				}, testPatience, time.Millisecond, "%v", r.Trouble())
				require.NoError(t, c.CreateTopic("dead", 1, nil))
				<-drained
				require.Equal(t, []string{"a", "b"}, r.log("t", 2))
				require.Equal(t, []string{"c"}, r.log("other", 1))
				require.Equal(t, []string{"bad"}, r.log("dead", 1))
				require.Len(t, r.acked, 4)
				require.Empty(t, r.Trouble())
			})
		})
	}
}

// TestRefusedTwice: the topic of the dead letters refuses one, which is asked about again, and dropped.
func TestRefusedTwice(t *testing.T) {
	for mode, change := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, kfake.SeedTopics(1, "t", "dead"))
				poison(c, "t", 87)
				poison(c, "dead", 87)
				r := newRig(t, c, change).start()
				r.policy = func(rec *router.Record, _ *sink.RefusedError) *router.Record {
					if rec.Topic == "dead" {
						return drop
					}
					return &router.Record{Topic: "dead", Partition: -1, Value: rec.Value}
				}
				window := r.put("t", []byte("a")) + r.put("t", []byte("bad")) + r.put("t", []byte("b"))
				r.whole()
				r.drain()
				require.Equal(t, []string{"a", "b"}, r.log("t", 2))
				require.Empty(t, r.log("dead", 0))
				require.Len(t, r.acked, 3)
				require.Equal(t, window, r.bytes)
			})
		})
	}
}

// TestRefusedInPlace: the replacement goes to the partition that refused the original, after what is there by then.
func TestRefusedInPlace(t *testing.T) {
	for mode, change := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, kfake.SeedTopics(1, "t"))
				poison(c, "t", 87)
				r := newRig(t, c, change, func(cfg *Config) {
					cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 200
				}).start()
				r.policy = func(*router.Record, *sink.RefusedError) *router.Record {
					return &router.Record{Topic: "t", Partition: -1, Value: []byte("mended")}
				}
				r.put("t", []byte("first"))
				r.drain()
				want := []string{"first"}
				for i := range 40 {
					if i == 20 {
						r.put("t", []byte("bad"))
					}
					want = append(want, fmt.Sprint("good ", i))
					r.put("t", []byte(want[i+1]))
				}
				r.whole()
				r.drain()
				log := r.log("t", 42)
				at := slices.Index(log, "mended")
				require.Positive(t, at)
				require.Equal(t, want, slices.Delete(log, at, at+1))
				require.Len(t, r.acked, 42)
				require.EqualValues(t, 1, testutil.ToFloat64(r.metrics.epochBumps),
					"nothing was sent with the old sequence any more")
			})
		})
	}
}
