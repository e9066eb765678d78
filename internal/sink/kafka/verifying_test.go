package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// observed collects the warnings of a producer.
func observed(cfg *Config) *observer.ObservedLogs {
	core, logs := observer.New(zapcore.WarnLevel)
	cfg.Logger = zap.New(core)
	return logs
}

// lacking makes the broker answer NOT_ENOUGH_REPLICAS.
func lacking(c *kfake.Cluster, times int) *kfake.FaultHandle {
	return c.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Count: times,
		Err: &kerr.Error{Code: wire.LacksReplicas, Message: "NOT_ENOUGH_REPLICAS"},
	})
}

// TestVerificationIsNoTrouble: a broker that still verifies a transaction answers NOT_ENOUGH_REPLICAS once or twice.
// What lasts is reported.
//
// Bug (producer): With `exactly_once` and a healthy Kafka 4.1, the log warned several times a minute to bring missing
// brokers back: a broker answers NOT_ENOUGH_REPLICAS also while it verifies a transaction. Cost: false alarms.
func TestVerificationIsNoTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t"))
		var logs *observer.ObservedLogs
		const verifying = 2 * time.Second
		r := newRig(t, c, exactlyOnce("first"), func(cfg *Config) {
			logs, cfg.pace.verifying = observed(cfg), verifying // a busy machine takes its time over the answers
		}).start()
		for range 3 {
			lacking(c, 2)
			r.transact(1, "t")
			r.drain()
		}
		require.Empty(t, logs.All())

		missing := lacking(c, -1)
		r.transact(1, "t")
		began := time.Now()
		require.Eventually(t, func() bool { return len(r.Trouble()) > 0 }, testPatience, testTick)
		require.GreaterOrEqual(t, time.Since(began), verifying/2)
		require.Equal(t, sink.NotEnoughReplicas, r.Trouble()[0].Kind)
		time.Sleep(2 * shortly)
		require.Len(t, logs.All(), 1)
		missing.Remove()
		r.drain()
		require.Empty(t, r.Trouble())
	})
}

// TestMissingReplicasAreReportedAtOnce: without transactions nothing is verified. The log has what lasts.
//
// Bug (producer): Each move of a leader, over after some milliseconds, was a warning in the log for each partition.
// Cost: a rolling restart read like an outage.
func TestMissingReplicasAreReportedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t"))
		var logs *observer.ObservedLogs
		r := newRig(t, c, func(cfg *Config) { logs = observed(cfg) })
		lacking(c, 1)
		r.produce("t", "k")
		r.drain()
		time.Sleep(2 * shortly)
		require.Empty(t, logs.All())

		missing := lacking(c, -1)
		r.produce("t", "k")
		r.Flush()
		began := time.Now()
		require.Eventually(t, func() bool { return len(r.Trouble()) > 0 }, testPatience, testTick)
		require.Less(t, time.Since(began), shortly)
		require.Empty(t, logs.All())
		time.Sleep(2 * shortly)
		require.Len(t, logs.All(), 1)
		missing.Remove()
		r.drain()
	})
}
