package publish

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/router"
)

type silent struct{}

func (silent) Say(string)                       {}
func (silent) Step(progress.Step)               {}
func (silent) Wait(progress.Wait) (stop func()) { return func() {} }

// A topic that is made again with fewer partitions, while records wait for it, ends the producer's session: each record
// has its outcome all the same.
func TestPublishesInAnotherSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var memory kfake.VirtualNetwork
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(memory.Listen), kfake.Ports(70_001),
			kfake.SeedTopics(5, "t"))
		require.NoError(t, err)
		defer c.Close()
		p, err := New(t.Context(), kafka.Config{
			Cluster: wire.Cluster{Brokers: c.ListenAddrs(), Dial: memory.DialContext}, Logger: zap.NewNop(),
		}, silent{})
		require.NoError(t, err)
		defer p.Close()
		var records []*router.Record
		for i := range 50 {
			records = append(records, &router.Record{
				Topic: "t", Partition: -1, Key: fmt.Append(nil, "k", i), Value: []byte("v"),
			})
		}
		for _, o := range p.Publish(t.Context(), records, time.Minute) {
			require.NoError(t, o.Err)
		}
		require.NoError(t, c.DeleteTopic("t"))
		time.AfterFunc(5*time.Second, func() { _ = c.CreateTopic("t", 1, nil) })
		for _, o := range p.Publish(t.Context(), records, time.Minute) {
			require.NoError(t, o.Err)
		}
		require.EqualValues(t, 50, c.PartitionInfo("t", 0).HighWatermark)
	})
}
