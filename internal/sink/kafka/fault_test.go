package kafka

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// onePartition makes requests of one small batch each, so that five are in flight soon.
func onePartition(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	c := newCluster(t, kfake.SeedTopics(1, "t"))
	return newRig(t, c, append([]func(*Config){func(cfg *Config) { cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 200 }},
		change...)...)
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

// gate holds the broker, at the next Produce request, until n are in flight, and reports which of them is being
// handled, from 1.
//
//waits:bubble
func (r *rig) gate(n int) *atomic.Int32 {
	var at atomic.Int32
	r.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		switch at.Add(1) {
		case int32(n) + 1:
			r.cluster.DropControl()
		case 1:
			for deadline := time.Now().Add(testPatience); r.inFlight() < n && time.Now().Before(deadline); {
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

// TestConnectionInFlight: the connection breaks, before or after the append, or the broker falls silent, at the first,
// middle and last of five requests in flight.
func TestConnectionInFlight(t *testing.T) {
	for s, name := range []string{"cut after append", "answer swallowed", "cut before append"} {
		for _, n := range []int{1, 3, 5} {
			t.Run(fmt.Sprintf("%s at %d", name, n), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					d := newFaultDial()
					r := onePartition(t, func(cfg *Config) {
						cfg.Dial, cfg.RequestTimeout = d.dial, 300*time.Millisecond
					})
					r.warm()
					if strike(s) != cutBeforeAppend {
						r.gate(5)
					}
					d.arm(strike(s), n, 0)
					r.burst()
					r.check()
					require.Equal(t, 1, d.count())
					require.Empty(t, r.Trouble())
				})
			})
		}
	}
}

// TestFirstBatchFails: after a new producer id the first batch is rejected, or its answer lost; nothing may pass it.
func TestFirstBatchFails(t *testing.T) {
	for _, code := range []int16{6, 7, 19, 20, 45} {
		t.Run(wire.VerdictOf(code).Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}

// TestProbing: with a fresh id one request flies, however much is there.
func TestProbing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

func TestLeaderMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// TestLeaderFrozen: a leader that does not answer any more is left for the new one as soon as metadata names it, long
// before the request timeout.
func TestLeaderFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "t"))
		d := newFaultDial()
		r := newRig(t, c, func(cfg *Config) {
			cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 200
			cfg.RequestTimeout, cfg.pace.slowAnswer = 5*time.Minute, 200*time.Millisecond
			cfg.Dial = d.dial
		})
		r.warm()
		d.arm(swallow, 1, 0)
		r.burst()
		require.Eventually(t, func() bool { return d.count() == 1 }, testPatience, time.Millisecond)
		require.NoError(t, c.MoveTopicPartition("t", 0, 1-c.LeaderFor("t", 0)))
		start := time.Now()
		r.check()
		require.Less(t, time.Since(start), time.Minute)
	})
}

// TestEpochExhausted: after the last epoch comes a new producer id.
func TestEpochExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// TestProducerIDRetried: coordinators load for moments after a start.
func TestProducerIDRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t"))
		h := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.CoordinatorLoadInProgress, Count: 3})
		r := newRig(t, c)
		r.burst()
		r.check()
		require.Equal(t, 3, h.Hits())
	})
}

// TestRestartIsOfOnePartition: where a broker has lost one partition's sequence, the others keep theirs, and with it
// the proof that what they have in doubt is in the log.
//
// Bug (producer): If a broker had lost the sequence of one partition, the sequences of all partitions were restarted.
// Cost: repeats of records in doubt on other partitions.
func TestRestartIsOfOnePartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newCluster(t, kfake.SeedTopics(1, "t", "u")))
		r.produce("u", "k")
		r.warm()
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: kerr.OutOfOrderSequenceNumber})
		r.burst()
		r.drain()
		r.lock()
		defer r.Producer.mu.Unlock()
		of := func(topic string) identity { return r.topics[topic].partitions[0].identity }
		require.EqualValues(t, 1, of("t").epoch)
		require.EqualValues(t, 0, of("u").epoch)
	})
}
