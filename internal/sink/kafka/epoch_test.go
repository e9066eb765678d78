package kafka

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// always answers each request of the key with the code, and counts them.
func always(c *kfake.Cluster, key kmsg.Key, code int16) *atomic.Int32 {
	var n atomic.Int32
	c.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		n.Add(1)
		return refusalOf(req, code), nil, true
	})
	return &n
}

// Each refusal of our epoch means another producer.
func TestKeepIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, code := range []int16{wire.InvalidProducerEpoch, wire.InvalidProducerIDMapping, wire.ProducerFenced} {
			r := newRig(t, newCluster(t), owned).start()
			answerOnce(r.cluster, kmsg.InitProducerID, code)
			require.ErrorIs(t, r.keep(), sink.ErrFenced)
		}
	})
}

// A coordinator that is busy is asked again, and not without a pause.
func TestStepsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newCluster(t), owned).start()
		asked := always(r.cluster, kmsg.InitProducerID, wire.ConcurrentTransactions)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, r.Keep(ctx), context.DeadlineExceeded)
		require.Less(t, asked.Load(), int32(30))
		r.lock()
		defer r.Producer.mu.Unlock()
		require.Positive(t, r.own.failures)
	})
}

// Keep asks the coordinator where its epochs protect single batches.
func TestKeepAsksWhereItMatters(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p, x := transacting(t)
	require.NoError(t, p.Keep(ended))
	require.Zero(t, x.asked)
	p = still(t, owned)
	p.own.plain = true
	require.NoError(t, p.Keep(ended))
	require.Zero(t, p.own.asked)
	p.own.plain = false
	require.ErrorIs(t, p.Keep(ended), context.Canceled)
	require.EqualValues(t, 1, p.own.asked)
	require.NoError(t, still(t).Keep(ended))
}

// What is asked for as "none" is -1 on the wire: a producer id and epoch, and the leader's epoch of a position.
func TestNoneOnTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "t"))
		seen := make(chan kmsg.Request, 16)
		for _, key := range []kmsg.Key{kmsg.InitProducerID, kmsg.TxnOffsetCommit} {
			c.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				seen <- req
				return nil, nil, false
			})
		}
		newRig(t, c).warm()
		first := (<-seen).(*kmsg.InitProducerIDRequest)
		require.Equal(t, []int64{-1, -1}, []int64{first.ProducerID, int64(first.ProducerEpoch)})
		r := newRig(t, c, exactlyOnce("x")).start()
		<-seen
		r.transact(1, "t")
		r.drain()
		position := (<-seen).(*kmsg.TxnOffsetCommitRequest)
		require.EqualValues(t, -1, position.Generation)
		require.EqualValues(t, -1, position.Topics[0].Partitions[0].LeaderEpoch)
	})
}

// Without the right to a producer id an operator has to act; a coordinator that is missing comes back.
func TestNoProducerID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for code, kind := range map[int16]sink.TroubleKind{
			wire.ClusterAuthorizationFailed: sink.NotAuthorized, wire.CoordinatorNotAvailable: sink.NoProducerID,
		} {
			c := newCluster(t, kfake.SeedTopics(1, "t"))
			always(c, kmsg.InitProducerID, code)
			r := newRig(t, c, func(cfg *Config) { cfg.pace.slow, cfg.pace.backoffMax = time.Hour, time.Second })
			r.produce("t", "k")
			require.Eventually(t, func() bool {
				r.lock()
				defer r.Producer.mu.Unlock()
				long := time.Until(r.control.idAt) > time.Minute
				return r.idTrouble.Kind == kind && long == (kind == sink.NotAuthorized)
			}, testPatience, testTick)
		}
	})
}

// The command that gives the rights is that of the delivery mode.
func TestRightsOfAnOwner(t *testing.T) {
	p := still(t, owned)
	p.own.owner.ID = "id"
	require.Equal(t, p.cfg.AllowFencing("id"), p.own.allow(&p.cfg))
	p, x := transacting(t)
	x.owner.ID = "id"
	require.Equal(t, p.cfg.AllowTransactions("id", x.cfg.PositionTopic), p.own.allow(&p.cfg))
}

// Of several answers the reason counts, and an answer has to name every partition.
func TestAnswersForPartitions(t *testing.T) {
	const denied, skipped = wire.TopicAuthorizationFailed, wire.OperationNotAttempted
	for name, test := range map[string]struct {
		codes []int16
		kind  sink.TroubleKind
	}{
		"the first is to blame":  {[]int16{denied, skipped}, sink.NotAuthorized},
		"the second is to blame": {[]int16{skipped, denied}, sink.NotAuthorized},
		"the first of two":       {[]int16{wire.UnknownTopic, denied}, sink.TopicMissing},
		"one is good":            {[]int16{0, denied}, sink.NotAuthorized},
		"one is not named":       {[]int16{0}, ""},
		"all are good":           {[]int16{0, 0}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := transactedRig(t, time.Hour)
				add := int16(kmsg.AddPartitionsToTxn)
				r.cluster.ControlKey(add, func(req kmsg.Request) (kmsg.Response, error, bool) {
					res := refusalOf(req, 0).(*kmsg.AddPartitionsToTxnResponse)
					res.Topics = res.Topics[:1]
					res.Topics[0].Partitions = nil
					for i, code := range test.codes {
						part := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
						part.Partition, part.ErrorCode = int32(i), code
						res.Topics[0].Partitions = append(res.Topics[0].Partitions, part)
					}
					return res, nil, true
				})
				topic := &topic{name: "a"}
				topic.adopt(2)
				live := &transaction{parts: topic.partitions, unadded: topic.partitions}
				r.lock()
				r.own.plain, r.tx.live = true, live // so that only this test takes steps
				r.Producer.mu.Unlock()
				r.addPartitions(t.Context())
				r.lock()
				defer r.Producer.mu.Unlock()
				require.Equal(t, test.kind, r.tx.trouble.Kind)
				require.Equal(t, name == "all are good", len(live.unadded) == 0)
				require.Equal(t, name == "one is not named", r.own.failures == 1 && r.tx.trouble.Kind == "")
			})
		})
	}
}
