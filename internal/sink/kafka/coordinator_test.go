package kafka

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// A coordinator that hangs until the cluster gives it up: its successor is asked at once, in whichever question the
// producer waits.
//
// Bug (producer): A question to a coordinator that hangs was waited for until its timeout, although the cluster had
// named another coordinator. Cost: exactly_once waited up to nine seconds longer than at_least_once.
func TestACoordinatorThatLeavesWhileItHangs(t *testing.T) {
	for name, connected := range map[string]bool{"asked": true, "dialed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "t"))
				coordinator := c.CoordinatorFor(owner.ID)
				if c.LeaderFor("t", 0) == coordinator {
					require.NoError(t, c.MoveTopicPartition("t", 0, (coordinator+1)%3))
				}
				address := c.ListenAddrs()[coordinator]
				var between staller
				r := newRig(t, c, exactlyOnce("a"), func(cfg *Config) {
					cfg.MetadataInterval = 50 * time.Millisecond
					cfg.Brokers = slices.DeleteFunc(cfg.Brokers, func(a string) bool { return a == address })
					cfg.Dial = func(ctx context.Context, network, to string) (net.Conn, error) {
						if to == address {
							return between.dial(ctx, network, to)
						}
						return dial(ctx, network, to)
					}
				})
				r.begin()
				r.transact(1, "t")
				r.drain()
				between.stall()
				defer between.deliver()
				if !connected {
					r.mu.Lock()
					r.own.forget(address)
					r.mu.Unlock()
				}
				r.transact(1, "t")
				time.Sleep(time.Second)
				began := time.Now()
				require.NoError(t, c.RemoveNode(coordinator))
				r.drain()
				require.Less(t, time.Since(began), 500*time.Millisecond)
				r.checkCommitted()
				require.Empty(t, r.Trouble())
			})
		})
	}
}
