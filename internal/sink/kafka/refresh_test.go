package kafka

import (
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// unknownTopics has the broker say for n answers that it knows none of the topics that it is asked for, as a broker
// does that has just started.
func unknownTopics(t *testing.T, c *kfake.Cluster, n int32) *atomic.Int32 {
	t.Helper()
	host, port, err := net.SplitHostPort(c.ListenAddrs()[0])
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	said := new(atomic.Int32)
	c.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if said.Add(1) > n {
			return nil, nil, false
		}
		req := kreq.(*kmsg.MetadataRequest)
		res := req.ResponseKind().(*kmsg.MetadataResponse)
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = 0, host, int32(number)
		res.Brokers = append(res.Brokers, b)
		for _, asked := range req.Topics {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.ErrorCode = asked.Topic, wire.UnknownTopic
			res.Topics = append(res.Topics, topic)
		}
		return res, nil, true
	})
	return said
}

// TestRefreshByABrokerThatKnowsLess: an answer without the topic's partitions is not what Refresh waits for. A topic
// that stays away does not hold the others up for longer than it may take a broker to know it.
//
// Bug (producer): An answer without partitions, from a broker that has just started, ended the wait for the present
// number of partitions. Cost: after a pause in which partitions were added, the first records went by the old number,
// and keys changed partition within the new ones.
func TestRefreshByABrokerThatKnowsLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t", "other"))
		r := newRig(t, c, func(cfg *Config) {
			cfg.MetadataInterval, cfg.pace.settling = time.Hour, 5*time.Second
		})
		r.produce("t", "k0")
		r.produce("other", "k0")
		r.drain()
		addPartitions(t, c, "t", 8)
		said := unknownTopics(t, c, 3)
		r.Refresh()
		require.Eventually(t, func() bool { return said.Load() > 0 }, testPatience, testTick)
		for i := range 40 {
			r.produce("t", fmt.Sprint("k", i))
		}
		r.drain()
		r.checkAcks()
		for i := range 40 {
			require.Contains(t, r.order, fmt.Sprint("t/", partitionOf([]byte(fmt.Sprint("k", i)), 8)))
		}

		r.Producer.mu.Lock()
		r.cfg.pace.settling = 50 * time.Millisecond
		r.Producer.mu.Unlock()
		require.NoError(t, c.DeleteTopic("t"))
		r.loses = true
		r.Refresh()
		r.produce("t", "k")
		r.produce("other", "k")
		require.NoError(t, c.CreateTopic("t", 8, nil))
		r.drain()
	})
}
