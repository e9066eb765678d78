package kafka

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// TestALoadingCoordinatorIsKept: brokers say so too while they still verify a transaction (KIP-890). It is the right
// coordinator, and nothing an operator should hear of.
//
// Bug (producer): TxnOffsetCommit's "coordinator loads", which newer brokers return for a moment, made the producer
// drop and reopen the coordinators' connections. Cost: four connections and a warning without need.
func TestALoadingCoordinatorIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t"))
		var opened *atomic.Int32
		r := newRig(t, c, exactlyOnce("a"), func(cfg *Config) { opened = dials(cfg) })
		r.begin()
		r.transact(1, "t")
		r.drain()
		before := opened.Load()
		var refused atomic.Int32
		c.ControlKey(int16(kmsg.TxnOffsetCommit), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			if refused.Add(1) > 5 {
				return nil, nil, false
			}
			req := kreq.(*kmsg.TxnOffsetCommitRequest)
			res := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
			topic := kmsg.NewTxnOffsetCommitResponseTopic()
			topic.Topic = req.Topics[0].Topic
			part := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			part.ErrorCode = wire.CoordinatorLoading
			topic.Partitions = append(topic.Partitions, part)
			res.Topics = append(res.Topics, topic)
			return res, nil, true
		})
		r.transact(1, "t")
		r.checkCommitted()
		require.GreaterOrEqual(t, refused.Load(), int32(6))
		require.Equal(t, before, opened.Load(), "no connection was re-created")
	})
}
