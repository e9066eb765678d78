package kafkaclient

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A partition whose records were all deleted has an end, and may never get a record again.
func TestEachAfterDeleteRecords(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "events"))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	c, err := New(cluster.ListenAddrs())
	require.NoError(t, err)
	t.Cleanup(c.Close)
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	t.Cleanup(producer.Close)
	for i := range int32(9) {
		require.NoError(t, producer.ProduceSync(t.Context(), &kgo.Record{
			Topic: "events", Partition: i % 3, Value: fmt.Append(nil, i),
		}).FirstErr())
	}
	_, err = c.Admin().DeleteRecords(t.Context(), kadm.Offsets{"events": {
		0: {Topic: "events", Partition: 0, At: 3}, 1: {Topic: "events", Partition: 1, At: 1},
	}})
	require.NoError(t, err)

	read := func() (values []string) {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		require.NoError(t, c.Each(ctx, []string{"events"}, func(r *kgo.Record) {
			values = append(values, string(r.Value))
		}))
		return values
	}
	require.ElementsMatch(t, []string{"4", "7", "2", "5", "8"}, read())
	_, err = c.Admin().DeleteRecords(t.Context(), kadm.Offsets{"events": {
		1: {Topic: "events", Partition: 1, At: 3}, 2: {Topic: "events", Partition: 2, At: 3},
	}})
	require.NoError(t, err)
	require.Empty(t, read())
}
