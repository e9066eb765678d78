package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// throttling lets the broker answer the next Produce request with a pause; it is not written to the log.
func throttling(c *kfake.Cluster, d time.Duration) {
	c.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.ProduceRequest)
		res := req.ResponseKind().(*kmsg.ProduceResponse)
		res.ThrottleMillis = int32(d.Milliseconds())
		for _, rt := range req.Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				part := kmsg.NewProduceResponseTopicPartition()
				part.Partition, part.BaseOffset = rp.Partition, -1 // it is not in the log
				topic.Partitions = append(topic.Partitions, part)
			}
			res.Topics = append(res.Topics, topic)
		}
		return res, nil, true
	})
}

// TestMetricsMove: each series that is registered says something when there is something to say.
func TestMetricsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moved := map[string]bool{}
		note := func(reg *prometheus.Registry) {
			families, err := reg.Gather()
			require.NoError(t, err)
			for _, f := range families {
				moved[f.GetName()] = moved[f.GetName()] // also where nothing moves
				for _, m := range f.GetMetric() {
					v := m.GetCounter().GetValue() + m.GetGauge().GetValue()
					v += float64(m.GetHistogram().GetSampleCount())
					moved[f.GetName()] = moved[f.GetName()] || v > 0
				}
			}
		}
		code := func(e *kerr.Error) kfake.Fault {
			return kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: e}
		}

		c := newCluster(t, kfake.SeedTopics(1, "t"))
		reg := prometheus.NewRegistry()
		r := newRig(t, c, func(cfg *Config) { cfg.Registerer = reg })
		r.burst()
		r.drain()
		c.Fault(code(kerr.NotLeaderForPartition))
		r.burst()
		r.drain()
		c.Fault(code(kerr.MessageTooLarge))
		r.burst()
		r.drain()
		c.Fault(code(kerr.OutOfOrderSequenceNumber))
		r.burst()
		r.drain()
		inFlight := make(chan float64, 1)
		c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.DropControl()
			inFlight <- testutil.ToFloat64(r.metrics.inFlight)
			note(reg)
			return nil, nil, false
		})
		r.burst()
		r.check()
		require.Positive(t, <-inFlight)
		require.Zero(t, testutil.ToFloat64(r.metrics.inFlight))
		require.InDelta(t, 1, testutil.ToFloat64(r.metrics.retries.WithLabelValues("NOT_LEADER_OR_FOLLOWER")), 0)
		require.InDelta(t, 1, testutil.ToFloat64(r.metrics.epochBumps), 0)
		throttling(c, 10*time.Millisecond)
		r.burst()
		r.drain()
		require.InDelta(t, 0.01, testutil.ToFloat64(r.metrics.throttled), 1e-9)
		note(reg)

		reg = prometheus.NewRegistry()
		x := newRig(t, c, exactlyOnce("a"), func(cfg *Config) { cfg.Registerer = reg })
		x.begin()
		c.Fault(code(kerr.OutOfOrderSequenceNumber))
		x.transact(5, "t")
		x.drain()
		require.Positive(t, testutil.ToFloat64(x.metrics.transactions.WithLabelValues("aborted")))
		require.Positive(t, testutil.ToFloat64(x.metrics.transactions.WithLabelValues("committed")))
		other := newRig(t, c, exactlyOnce("b"))
		other.begin()
		x.transact(1, "t")
		require.ErrorIs(t, x.Drain(t.Context()), sink.ErrFenced)
		note(reg)
		for name, yes := range moved {
			require.True(t, yes, "%s never moved", name)
		}
		require.Len(t, moved, 12, "this test knows them all")
	})
}

// TestThrottledProducerKeepsQuiet for as long as the broker asks for, and no trouble is reported.
//
// Bug (producer): A broker that requested a pause of some seconds (a quota) was treated as one that does not answer.
// Cost: a false alarm.
func TestThrottledProducerKeepsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t"))
		r := newRig(t, c, func(cfg *Config) { cfg.pace.slowAnswer = 50 * time.Millisecond })
		r.warm()
		const pause = 300 * time.Millisecond
		throttling(c, pause)
		asked := time.Now()
		r.produce("t", "k")
		r.drain()
		r.sent = map[string][]string{}
		r.burst()
		require.Never(t, func() bool { return len(r.Trouble()) > 0 }, pause/2, 10*time.Millisecond)
		r.drain()
		require.GreaterOrEqual(t, time.Since(asked), pause)
		require.Less(t, time.Since(asked), pause+time.Second)

		p := &Producer{cfg: r.cfg, metrics: newMetrics(nil), clock: make(chan struct{}, 1)}
		var b broker
		p.throttle(&b, 5, time.Hour)
		require.True(t, b.throttledUntil.IsZero(), "older brokers answer when the pause is over")
		p.throttle(&b, 6, time.Hour)
		require.LessOrEqual(t, time.Until(b.throttledUntil), r.cfg.RequestTimeout)
	})
}
