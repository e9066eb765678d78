package reader

import (
	"errors"
	"testing"

	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// TestEnds: of partitions led by three brokers, in a topic that exists.
func TestEnds(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(6, "t"))
	require.NoError(t, err)
	defer c.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	for p := range int32(6) {
		for range p {
			require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: p}).FirstErr())
		}
	}
	r, err := New(wire.Cluster{Brokers: c.ListenAddrs()[:1]})
	require.NoError(t, err)
	defer r.Close()
	ends, err := r.Ends(t.Context(), []string{"missing", "t"})
	require.NoError(t, err)
	require.Equal(t, map[string][]int64{"t": {0, 1, 2, 3, 4, 5}}, ends)
	c.ControlKey(2, func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("hangs up"), true })
	ends, err = r.Ends(t.Context(), []string{"t"})
	require.NoError(t, err)
	require.Contains(t, ends["t"], int64(-1), "one broker did not answer")
}

// TestMergeLeaders: a broker that the others have lost does not count.
func TestMergeLeaders(t *testing.T) {
	answer := func(leader, epoch int32, indexes ...int32) *metadata.Response {
		res := &metadata.Response{Brokers: []metadata.ResponseBroker{
			{NodeID: 1, Host: "one", Port: 9092}, {NodeID: 2, Host: "two", Port: 9092},
		}}
		topic := metadata.ResponseTopic{Name: "t"}
		for _, i := range indexes {
			topic.Partitions = append(topic.Partitions, metadata.ResponsePartition{
				PartitionIndex: i, LeaderID: leader, LeaderEpoch: epoch,
			})
		}
		res.Topics = append(res.Topics, topic)
		return res
	}
	led := map[string][]leads{}
	merge(led, answer(1, 7, 0, 1))
	merge(led, answer(2, 8, 1, 2))
	merge(led, answer(1, 6, 1))
	merge(led, answer(9, 9, 0, -1, maxPartitions, 1<<30)) // no leader, and nonsense
	merge(led, answer(1, 7, 0))                           // one that does not know of the election
	require.Equal(t, map[string][]leads{"t": {{"", 9}, {"two:9092", 8}, {"two:9092", 8}}}, led)
}
