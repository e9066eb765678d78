package kafka

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

func TestShiftsOf(t *testing.T) {
	const minute, hour, day = int64(60_000), int64(3600_000), int64(24 * 3600_000)
	for name, c := range map[string]struct {
		config map[string]string
		want   shifts
	}{
		"nothing known": {map[string]string{}, shifts{minute, hour}},
		"Kafka 4's defaults": {map[string]string{
			wire.CleanupPolicy: "delete", wire.RetentionMs: fmt.Sprint(7 * day),
			wire.TimestampType: "CreateTime", wire.TimestampBefore: "9223372036854775807",
			wire.TimestampAfter: fmt.Sprint(hour),
		}, shifts{hour, hour / 4}},
		"a short retention": {map[string]string{wire.RetentionMs: fmt.Sprint(20 * minute)}, shifts{5 * minute, hour}},
		"no retention":      {map[string]string{wire.RetentionMs: "0"}, shifts{0, hour}},
		"none before":       {map[string]string{wire.RetentionMs: "-1", wire.TimestampBefore: "0"}, shifts{0, hour}},
		"for ever":          {map[string]string{wire.RetentionMs: "-1"}, shifts{noShift, hour}},
		"compacted": {
			map[string]string{wire.CleanupPolicy: "compact", wire.RetentionMs: "1"}, shifts{noShift, hour},
		},
		"compacted and aged": {
			map[string]string{wire.CleanupPolicy: "compact,delete", wire.RetentionMs: "400"}, shifts{100, hour},
		},
		"the broker's time": {
			map[string]string{wire.TimestampType: "LogAppendTime", wire.RetentionMs: "1"}, shifts{noShift, noShift},
		},
		"narrow before": {
			map[string]string{wire.RetentionMs: "-1", wire.TimestampBefore: "4000"}, shifts{1000, hour},
		},
		"before Kafka 4": {
			map[string]string{wire.RetentionMs: "-1", wire.TimestampDifference: "8000"}, shifts{2000, 2000},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, shiftsOf(c.config)) })
	}
}

func TestWindowOfTimestamps(t *testing.T) {
	const now = int64(1_795_000_000_000)
	w := shifts{1000, 500}.around(now)
	for ms, want := range map[int64]bool{
		now: true, now - 1000: true, now - 1001: false, now + 500: true, now + 501: false, 0: false, -1: false,
	} {
		require.Equal(t, want, w.keeps(ms), "%d", ms-now)
	}
	w = shifts{noShift, noShift}.around(now)
	require.True(t, w.keeps(0))
	require.True(t, w.keeps(1<<50))
	require.False(t, w.keeps(-1), "none, in Kafka")
}

// clocked is a topic with a configuration.
func clocked(t *testing.T, config map[string]string) *kfake.Cluster {
	t.Helper()
	configs := map[string]*string{}
	for k, v := range config {
		configs[k] = &v
	}
	c := newCluster(t)
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 1, 1
	for k, v := range configs {
		entry := kmsg.NewCreateTopicsRequestTopicConfig()
		entry.Name, entry.Value = k, v
		topic.Configs = append(topic.Configs, entry)
	}
	req.Topics = append(req.Topics, topic)
	res, err := req.RequestWith(t.Context(), adminClient(t, c))
	require.NoError(t, err)
	require.Zero(t, res.Topics[0].ErrorCode)
	return c
}

// timed produces records with timestamps, and returns their size in the window.
func (r *rig) timed(timestamps ...int64) (size int64) {
	r.t.Helper()
	for _, ms := range timestamps {
		r.ticket++
		rec := &router.Record{
			Topic: "t", Partition: -1, Key: []byte("k"), Value: []byte("v"), Timestamp: ms,
			Headers: []router.Header{{Key: "id", Value: fmt.Append(nil, r.ticket)}},
		}
		size += int64(rec.Size())
		ctx, cancel := context.WithTimeout(r.t.Context(), testPatience)
		require.NoError(r.t, r.ProduceAt(ctx, rec, r.ticket, at(r.ticket)))
		cancel()
		require.Len(r.t, rec.Headers, 1, "the caller's record is not touched")
	}
	return size
}

// stamps are the topic's records: their timestamps, and what the header says they were.
func (r *rig) stamps(n int) (at []time.Time, original []string) {
	r.t.Helper()
	cl, err := newClient(r.cluster.ListenAddrs(), kgo.ConsumeTopics("t"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(r.t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), testPatience)
	defer cancel()
	for len(at) < n {
		fetches := cl.PollFetches(ctx)
		require.NoError(r.t, ctx.Err(), "%d of %d", len(at), n)
		fetches.EachRecord(func(rec *kgo.Record) {
			var said []string
			for _, h := range rec.Headers {
				if h.Key == router.HeaderOriginalTimestamp {
					said = append(said, string(h.Value))
				}
			}
			at, original = append(at, rec.Timestamp), append(original, strings.Join(said, ","))
		})
	}
	return at, original
}

// TestOldRowsAreNotDeleted: what would be deleted soon, or refused, gets the present time, and a header with its own.
func TestOldRowsAreNotDeleted(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() // when the time of a bubble begins
	old, ahead, fresh, early := now-8*24*3600_000, now+7200_000, now-60_000, int64(-5)
	week := fmt.Sprint(7 * 24 * 3600_000)
	for name, c := range map[string]struct {
		config map[string]string
		keep   bool
		moved  map[int64]bool
	}{
		"a week": {
			map[string]string{"retention.ms": week}, false, map[int64]bool{old: true, ahead: true, early: true},
		},
		"for ever": {map[string]string{"retention.ms": "-1"}, false, map[int64]bool{ahead: true, early: true}},
		"a minute": {
			map[string]string{"retention.ms": "60000"},
			false,
			map[int64]bool{old: true, ahead: true, fresh: true, early: true},
		},
		"the preset's": {map[string]string{"retention.ms": week}, true, nil},
		"broker's clock": {
			map[string]string{"message.timestamp.type": "LogAppendTime"}, false, map[int64]bool{early: true},
		},
	} {
		for mode, change := range modes {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					keep := func(cfg *Config) { cfg.KeepTimestamps = c.keep }
					r := newRig(t, clocked(t, c.config), change, keep).start()
					said := []int64{fresh, old, ahead, fresh, early}
					size := r.timed(said...)
					r.whole()
					r.drain()
					require.Equal(t, size, r.bytes, "the window gets back what it gave")
					at, original := r.stamps(len(said))
					for i, ms := range said {
						if !c.moved[ms] {
							require.Empty(t, original[i])
							if c.config["message.timestamp.type"] == "" {
								require.Equal(t, ms, at[i].UnixMilli())
							}
							continue
						}
						require.Equal(t, strconv.FormatInt(ms, 10), original[i])
						require.WithinDuration(t, time.Now(), at[i], testPatience)
					}
				})
			})
		}
	}
}

// TestABacklogIsNotDeleted: batches that waited in the producer for longer than their timestamps are good for are sent
// with the present time, also where they were sent before.
//
// Bug (producer): Batches that waited in the producer during a long outage were sent with the timestamps from before
// the outage. Cost: the same loss.
func TestABacklogIsNotDeleted(t *testing.T) {
	for mode, change := range modes {
		for _, compression := range []string{"none", "gzip", "zstd"} {
			t.Run(mode+" "+compression, func(t *testing.T) {
				t.Parallel()
				inBubble(t, compression, func(t *testing.T) {
					c := clocked(t, map[string]string{"retention.ms": "8000"}) // good for two seconds
					away := c.Fault(kfake.Fault{
						Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Count: -1,
						Err: &kerr.Error{Code: 19, Message: "NOT_ENOUGH_REPLICAS"},
					})
					r := newRig(t, c, change, func(cfg *Config) {
						cfg.MaxBatchBytes, cfg.Compression = 200, compression
					}).start()
					begin := time.Now()
					var said []int64
					for i := range 20 {
						said = append(said, begin.UnixMilli()-int64(i))
					}
					size := r.timed(said...)
					r.whole()
					outage := time.Until(begin.Add(2500 * time.Millisecond))
					time.Sleep(outage) //waits:ok it outlasts the timestamps
					away.Remove()
					r.drain()
					require.Equal(t, size, r.bytes)
					at, original := r.stamps(len(said))
					for i, ms := range said {
						require.Equal(t, strconv.FormatInt(ms, 10), original[i])
						require.Greater(t, at[i].UnixMilli(), ms+2000)
					}
				})
			})
		}
	}
}

// TestRefusedTimestamps: a topic whose bounds are not known refuses a timestamp. The row is not to blame.
//
// Bug (producer): A row from the future, which Kafka 4 refuses, was treated as a bad row, and status named neither
// column nor setting. Cost: an outage for a clock.
func TestRefusedTimestamps(t *testing.T) {
	for mode, change := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := clocked(t, map[string]string{"retention.ms": "-1"})
				var times sync.Map
				c.Fault(kfake.Fault{
					Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Count: 2,
					Err:  &kerr.Error{Code: wire.InvalidTimestamp, Message: "INVALID_TIMESTAMP"},
					When: func(kmsg.Request) bool { times.Store(time.Now(), true); return true },
				})
				r := newRig(t, c, change).start() // a refused row would fail it
				said := []int64{1600000000000, 1600000000001}
				r.timed(said...)
				r.whole()
				r.drain()
				at, original := r.stamps(len(said))
				for i, ms := range said {
					require.Equal(t, strconv.FormatInt(ms, 10), original[i])
					require.WithinDuration(t, time.Now(), at[i], testPatience)
				}
			})
		})
	}
}

// TestRefusedTimestampOfAPreset: where records keep their timestamps, the trouble names column and setting.
func TestRefusedTimestampOfAPreset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clocked(t, nil)
		c.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Count: -1,
			Err: &kerr.Error{Code: wire.InvalidTimestamp, Message: "INVALID_TIMESTAMP"},
		})
		r := newRig(t, c, func(cfg *Config) {
			cfg.KeepTimestamps, cfg.TimestampColumn = true, "happened_at"
		})
		var got sink.RefusedError
		r.policy = func(_ *router.Record, err *sink.RefusedError) *router.Record {
			got = *err
			return drop
		}
		r.ticket++
		require.NoError(t, r.give(t.Context(), &router.Record{Topic: "t", Partition: -1, Timestamp: 1600000000000}))
		r.drain()
		require.Contains(t, got.Sentence, `"happened_at"`)
		require.Contains(t, got.Sentence, "2020-09-13T12:26:40Z")
		require.Contains(t, got.Remedy.Next, "message.timestamp.after.max.ms")
		require.Contains(t, strings.Join(got.Remedy.Commands, " "), "message.timestamp.type=LogAppendTime")
	})
}

// TestTimelyAllocatesNothing: a backlog is where every record has another timestamp.
func TestTimelyAllocatesNothing(t *testing.T) {
	p, err := New(Config{
		Cluster:   wire.Cluster{Brokers: []string{"127.0.0.1:1"}},
		Callbacks: sink.Callbacks{Acked: func(sink.Delivery) {}},
	})
	require.NoError(t, err)
	topic := p.topic("t")
	rec := &router.Record{Headers: []router.Header{{Key: "id"}}, Timestamp: 1600000000000}
	require.Zero(t, testing.AllocsPerRun(100, func() { topic.timely(rec, p.cfg.KeepTimestamps, &p.stamped) }))
}
