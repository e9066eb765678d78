package kafka

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// TestADeadBrokerIsToldOnce: the connections for data, for metadata and to the coordinators all miss it.
//
// Bug (producer): Each connection that failed to reach a dead broker reported it. Cost: two or three warnings, and as
// many reasons in the status, for one cause.
func TestADeadBrokerIsToldOnce(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"idempotent":   func(*Config) {},
		"transactions": exactlyOnce("a"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				free := memoryPort()
				c := newCluster(t, kfake.SeedTopics(1, "t"), kfake.Ports(free), kfake.DataDir(dir))
				core, logs := observer.New(zap.InfoLevel)
				r := newRig(t, c, change, func(cfg *Config) { cfg.Logger = zap.New(core) })
				r.begin()
				r.transact(10, "t")
				r.drain()
				logs.TakeAll()
				c.Close()
				r.transact(10, "t")
				require.Eventually(t, func() bool {
					now := r.Trouble()
					return len(now) > 0 && strings.Contains(now[0].Sentence, "refuses connections")
				}, testPatience, testTick)
				time.Sleep(2 * shortly) // many tries of each connection
				require.Len(t, logs.FilterMessage("waiting for kafka").TakeAll(), 1)
				require.Len(t, r.Trouble(), 1)
				require.Equal(t, sink.BrokerUnreachable, r.Trouble()[0].Kind)
				require.Contains(t, r.Trouble()[0].Sentence, "refuses connections")

				r.cluster = newCluster(t, kfake.Ports(free), kfake.DataDir(dir))
				r.drain()
				require.Eventually(t, func() bool { return len(r.Trouble()) == 0 }, testPatience, time.Millisecond)
				over := logs.FilterMessage("kafka trouble is over")
				require.Equal(t, 1, over.FilterField(zap.String("trouble", string(sink.BrokerUnreachable))).Len())
			})
		})
	}
}

// TestADeletedTopicSwallowsItsPartitions: no_leader of each partition leads to a description of a missing topic.
//
// Bug (monitor): Of a deleted topic, `/readyz` named the topic, and `status --why`, the page and the alert its
// partitions without a leader. Cost: a remedy that describes a topic that does not exist.
func TestADeletedTopicSwallowsItsPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(3, "t"))
		core, logs := observer.New(zap.InfoLevel)
		r := newRig(t, c, func(cfg *Config) {
			cfg.Logger, cfg.MetadataInterval, cfg.pace.settling = zap.New(core), time.Hour, time.Minute
		})
		r.burst()
		r.drain()
		r.sent = map[string][]string{}
		require.NoError(t, c.DeleteTopic("t"))
		r.loses = true
		r.burst()
		require.Eventually(t, func() bool {
			now := r.Trouble()
			return len(now) == 1 && now[0].Kind == sink.TopicMissing
		}, testPatience, time.Millisecond)
		require.Never(t, func() bool {
			now := r.Trouble()
			return len(now) != 1 || now[0].Kind != sink.TopicMissing ||
				!strings.Contains(now[0].Commands[0], "--create")
		}, 200*time.Millisecond, time.Millisecond)
		require.Equal(t, 1, logs.FilterMessage("waiting for kafka").Len(), "%v", logs.All())
		require.NoError(t, c.CreateTopic("t", 3, nil))
		r.drain()
		require.Eventually(t, func() bool { return len(r.Trouble()) == 0 }, testPatience, time.Millisecond)
	})
}

// TestAFailingDiskIsCalledThat, not a partition without a leader.
func TestAFailingDiskIsCalledThat(t *testing.T) {
	p := still(t)
	part := p.partitions(1)[0]
	p.report(part, verdictNamed("KAFKA_STORAGE_ERROR"))
	require.Equal(t, "The leader's disk fails (KAFKA_STORAGE_ERROR).", part.trouble.Sentence)
	require.Contains(t, part.trouble.Commands[0], "kafka-log-dirs.sh")
}
