package kafka

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// TestAnotherClusterIsNotUsed: a cluster that is replaced under its address gets nothing of what the first one was to
// get, in any mode.
//
// Bug (producer): a producer went on in whatever cluster answered at an address of its own, with the producer id of the
// first. Cost: records that the new cluster took for repeats of another producer's with the same id were acknowledged
// and are nowhere; with two clusters in kafka.brokers, events went to one, then to the other.
func TestAnotherClusterIsNotUsed(t *testing.T) {
	for mode, change := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				topic := kfake.SeedTopics(1, "t")
				first, second := newCluster(t, topic, kfake.ClusterID("A")), newCluster(t, topic, kfake.ClusterID("B"))
				var replaced atomic.Bool
				r := newRig(t, first, change, func(cfg *Config) {
					cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
						if replaced.Load() {
							return dial(ctx, network, second.ListenAddrs()[0])
						}
						return dial(ctx, network, first.ListenAddrs()[0])
					}
				}).start()
				r.take("t", "k", -1)
				r.whole()
				r.drain()
				replaced.Store(true)
				first.Close()
				r.take("t", "k", -1)
				r.whole()
				require.Eventually(t, func() bool {
					for _, trouble := range r.Trouble() {
						if trouble.Kind == sink.Rejected {
							require.Contains(t, trouble.Sentence, `is of the Kafka cluster "B", and the`)
							require.Contains(t, trouble.Remedy, "restart this process")
							return true
						}
					}
					return false
				}, testPatience, testTick)
				require.Zero(t, second.PartitionInfo("t", 0).HighWatermark)
				require.Equal(t, "A", r.cfg.Identity.ID())
			})
		})
	}
}

// TestBrokersOfTwoClusters: the second one is never used, also where the first does not answer any more.
func TestBrokersOfTwoClusters(t *testing.T) {
	a, b := newCluster(t, kfake.ClusterID("A")), newCluster(t, kfake.ClusterID("B"))
	cluster := wire.Cluster{Brokers: append(a.ListenAddrs(), b.ListenAddrs()...), Dial: dial}
	cluster.SetDefaults()
	w, err := wire.Dial(t.Context(), &cluster, cluster.Brokers[0])
	require.NoError(t, err)
	require.NoError(t, w.Close())
	_, err = wire.Dial(t.Context(), &cluster, cluster.Brokers[1])
	require.EqualError(t, err, `the broker at `+cluster.Brokers[1]+` is of the Kafka cluster "B", and the broker at `+
		cluster.Brokers[0]+` is of "A"`)
}
