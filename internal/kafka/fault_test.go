package kafka

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
)

// onePartition makes requests of one small batch each, so that five are in flight soon.
func onePartition(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	c := newCluster(t, kfake.SeedTopics(1, "t"))
	return newRig(t, c, append([]func(*Config){func(cfg *Config) { cfg.MaxBatchBytes = 300; cfg.MaxRequestBytes = 200 }}, change...)...)
}

// warm takes the partition past its probe.
func (r *rig) warm() {
	r.produce("t", "k")
	r.drain()
}

func (r *rig) inFlight() int {
	r.lock()
	defer r.Producer.mu.Unlock()
	return r.flying
}

func (r *rig) lock() { r.Producer.mu.Lock() }

// gate holds the broker, at the next Produce request, until n are in flight, and tells which of them is being
// handled, from 1.
func (r *rig) gate(n int) *atomic.Int32 {
	var at atomic.Int32
	r.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		if at.Add(1) == 1 {
			for deadline := time.Now().Add(5 * time.Second); r.inFlight() < n && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
		}
		return nil, nil, false
	})
	return &at
}

func (r *rig) burst() {
	for range 60 {
		r.produce("t", "k")
	}
	r.Flush()
}

// TestErrorInFlight: each code that a broker gives instead of appending, and those it may give after appending, on the
// first, middle and last of five batches in flight.
func TestErrorInFlight(t *testing.T) {
	codes := []int16{3, 5, 6, 56, 74, 19, 7, 20, 2, 89, 10, 18, 45, 59, 47, 29, 87, -1, 200}
	for _, code := range codes {
		for _, n := range []int32{1, 3, 5} {
			t.Run(fmt.Sprintf("%s at %d", verdictOf(code).name, n), func(t *testing.T) {
				t.Parallel()
				r := onePartition(t)
				r.warm()
				at := r.gate(5)
				h := r.cluster.Fault(kfake.Fault{
					Keys: []kmsg.Key{kmsg.Produce}, Err: &kerr.Error{Code: code, Message: verdictOf(code).name},
					When: func(kmsg.Request) bool { return at.Load() == n },
				})
				r.burst()
				r.check()
				require.Equal(t, 1, h.Hits())
				require.Empty(t, r.Trouble())
				require.GreaterOrEqual(t, testutil.ToFloat64(r.metrics.rewinds), 1.0)
				require.GreaterOrEqual(t, testutil.ToFloat64(r.metrics.retries.WithLabelValues(verdictOf(code).name)), 1.0)
				bumps := 0.0
				if a := verdictOf(code).action; a == bump || a == renew {
					bumps = 1
				}
				require.Equal(t, bumps, testutil.ToFloat64(r.metrics.epochBumps))
			})
		}
	}
}

func TestFenced(t *testing.T) {
	r := onePartition(t)
	r.warm()
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.ProducerFenced})
	r.burst()
	err := <-r.ended
	require.Equal(t, fault.Operator, fault.KindOf(err))
	require.ErrorContains(t, err, "PRODUCER_FENCED")
	require.Equal(t, err, r.Drain(context.Background()), "who waits gets the same error")
}

// TestConnectionInFlight: the connection breaks, before or after the append, or the broker falls silent, at the first,
// middle and last of five requests in flight.
func TestConnectionInFlight(t *testing.T) {
	for s, name := range []string{"cut after append", "answer swallowed", "cut before append"} {
		for _, n := range []int{1, 3, 5} {
			t.Run(fmt.Sprintf("%s at %d", name, n), func(t *testing.T) {
				t.Parallel()
				d := newFaultDial()
				r := onePartition(t, func(cfg *Config) { cfg.Dial = d.dial; cfg.RequestTimeout = 300 * time.Millisecond })
				r.warm()
				if strike(s) != cutBeforeAppend {
					r.gate(5)
				}
				d.arm(strike(s), n)
				r.burst()
				r.check()
				require.Equal(t, 1, d.count())
				require.Empty(t, r.Trouble())
			})
		}
	}
}

// TestFirstBatchFails: after a new producer id the first batch is rejected, or its answer lost; nothing may pass it.
func TestFirstBatchFails(t *testing.T) {
	for _, code := range []int16{6, 7, 19, 20, 45} {
		t.Run(verdictOf(code).name, func(t *testing.T) {
			t.Parallel()
			r := onePartition(t)
			r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: &kerr.Error{Code: code}, Count: 3})
			var most atomic.Int32
			r.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				r.cluster.KeepControl()
				most.Store(max(most.Load(), int32(r.inFlight())))
				if most.Load() > 1 {
					r.cluster.DropControl()
				}
				return nil, nil, false
			})
			r.burst()
			r.check()
		})
	}
}

// TestProbing: with a fresh id one request flies, however much is there.
func TestProbing(t *testing.T) {
	r := onePartition(t)
	var first atomic.Int32
	r.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		time.Sleep(50 * time.Millisecond) // for the others to come, if they will
		first.Store(int32(r.inFlight()))
		r.cluster.DropControl()
		return nil, nil, false
	})
	r.burst()
	r.check()
	require.Equal(t, int32(1), first.Load())
}

func TestLeaderMove(t *testing.T) {
	c := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "t"))
	r := newRig(t, c, func(cfg *Config) {
		cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 200
		cfg.MetadataInterval = time.Hour // only errors tell
	})
	r.warm()
	for i := range 30 {
		require.NoError(t, c.MoveTopicPartition("t", 0, int32(i%3)))
		r.burst()
	}
	r.check()
}

// TestLeaderFrozen: a leader that does not answer any more is left for the new one as soon as metadata names it, long
// before the request timeout.
func TestLeaderFrozen(t *testing.T) {
	c := newCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "t"))
	d := newFaultDial()
	r := newRig(t, c, func(cfg *Config) {
		cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 200
		cfg.RequestTimeout = time.Minute
		cfg.Dial = d.dial
	})
	r.warm()
	d.arm(swallow, 1)
	r.burst()
	require.Eventually(t, func() bool { return d.count() == 1 }, 5*time.Second, time.Millisecond)
	require.NoError(t, c.MoveTopicPartition("t", 0, 1-c.LeaderFor("t", 0)))
	start := time.Now()
	r.check()
	require.Less(t, time.Since(start), 10*time.Second)
}

func TestTopicAppears(t *testing.T) {
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
		return len(ts) == 1 && ts[0].Kind == TopicMissing && ts[0].Object == `topic "t"` && ts[0].Remedy != ""
	}, 5*time.Second, time.Millisecond)
	require.NoError(t, c.CreateTopic("t", 3, nil))
	<-done
	r.check()
	require.Empty(t, r.Trouble())
}

// TestTopicDeleted: under load, and created anew. What was acknowledged went with the topic; the rest is in the new
// one, in order, without a hole.
func TestTopicDeleted(t *testing.T) {
	c := newCluster(t, kfake.SeedTopics(2, "t"))
	r := newRig(t, c, func(cfg *Config) { cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 200 })
	r.burst()
	r.drain()
	r.sent = map[string][]string{}
	require.NoError(t, c.DeleteTopic("t"))
	r.burst()
	require.Eventually(t, func() bool {
		for _, x := range r.Trouble() {
			if x.Kind == TopicMissing {
				return true
			}
		}
		return false
	}, 5*time.Second, time.Millisecond)
	require.NoError(t, c.CreateTopic("t", 2, nil))
	r.burst()
	r.check()
	require.Empty(t, r.Trouble())
}

// TestPartitionsAdded: the newer records of a key go to another partition only when the older ones are acknowledged.
func TestPartitionsAdded(t *testing.T) {
	c := newCluster(t, kfake.SeedTopics(1, "t"))
	r := newRig(t, c, func(cfg *Config) {
		cfg.MetadataInterval = 20 * time.Millisecond
		cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 200
	})
	for i := range 500 {
		if i == 100 {
			addPartitions(t, c, "t", 8)
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
	got := r.read("t", 500)
	require.Len(t, got, 500)
}

func TestTooLarge(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.CreateTopic("t", 1, map[string]string{"max.message.bytes": "1000"}))
	r := newRig(t, c)
	for range 500 {
		r.produce("t", "k")
	}
	r.check()
	require.Zero(t, testutil.ToFloat64(r.metrics.splits), "the limit is known before the first batch")
}

// TestTooLargeUnknown: who may not read the topic's configuration finds its limit by splitting.
func TestTooLargeUnknown(t *testing.T) {
	for _, compression := range []string{"none", "gzip"} {
		t.Run(compression, func(t *testing.T) {
			c := newCluster(t)
			require.NoError(t, c.CreateTopic("t", 1, map[string]string{"max.message.bytes": "1000"}))
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.TopicAuthorizationFailed, Count: -1})
			r := newRig(t, c, func(cfg *Config) { cfg.Compression = compression })
			for range 2000 {
				r.produce("t", "k")
			}
			r.check()
			require.Positive(t, testutil.ToFloat64(r.metrics.splits))
		})
	}
}

// TestTooLargeAlone: a single record that the topic does not take stops its partition, and nothing else, until the
// topic takes it.
func TestTooLargeAlone(t *testing.T) {
	c := newCluster(t, kfake.SeedTopics(1, "other"))
	require.NoError(t, c.CreateTopic("t", 1, map[string]string{"max.message.bytes": "60"}))
	r := newRig(t, c)
	r.produce("t", "k")
	r.produce("t", "k")
	r.produce("other", "k")
	r.Flush()
	require.Eventually(t, func() bool {
		ts := r.Trouble()
		return len(ts) == 1 && ts[0].Kind == RecordTooLarge && ts[0].Object == "partition t/0"
	}, 5*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.acked[3] == 1 }, 5*time.Second, time.Millisecond)

	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	res.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "max.message.bytes", Value: kmsg.StringPtr("1000")}}
	req.Resources = append(req.Resources, res)
	_, err := req.RequestWith(context.Background(), adminClient(t, c))
	require.NoError(t, err)
	r.check()
	require.Empty(t, r.Trouble())
}

// TestEpochExhausted: after the last epoch comes a new producer id.
func TestEpochExhausted(t *testing.T) {
	r := onePartition(t)
	r.warm()
	r.lock()
	before := r.id.id
	r.id.epoch = maxEpoch
	for _, part := range r.topics["t"].partitions {
		part.restart()
	}
	r.Producer.mu.Unlock()
	r.burst()
	r.drain()
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.OutOfOrderSequenceNumber})
	r.burst()
	r.check()
	r.lock()
	defer r.Producer.mu.Unlock()
	require.NotEqual(t, before, r.id.id)
	require.Less(t, r.id.epoch, int16(10))
}

// TestProducerIDRetried: coordinators load for moments after a start.
func TestProducerIDRetried(t *testing.T) {
	c := newCluster(t, kfake.SeedTopics(1, "t"))
	h := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.CoordinatorLoadInProgress, Count: 3})
	r := newRig(t, c)
	r.burst()
	r.check()
	require.Equal(t, 3, h.Hits())
}
