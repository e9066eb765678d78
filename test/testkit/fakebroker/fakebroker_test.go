package fakebroker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func TestBrokerReturnsRecordsAndFaults(t *testing.T) {
	b, err := fakebroker.Start(fakebroker.Options{Brokers: 2, Topics: map[string]int32{"a": 2}})
	require.NoError(t, err)
	defer b.Close()
	require.Len(t, b.Addrs(), 2)
	require.NoError(t, b.Create(t.Context(), kafkaclient.Topic{Name: "b", Partitions: 3}))

	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.MetadataMinAge(10*time.Millisecond))
	require.NoError(t, err)
	defer cl.Close()
	fault := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "b", Err: kerr.NotLeaderForPartition})
	for _, topic := range []string{"a", "b"} {
		require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")},
			&kgo.Record{Topic: topic}).FirstErr())
	}
	require.Equal(t, 1, fault.Hits())
	require.NoError(t, b.Await(t.Context(), 4, "a", "b"))
	records, err := b.Read(t.Context(), "a", "b")
	require.NoError(t, err)
	require.Len(t, records, 4)
}

func TestBrokerCreatesNoTopicAutomatically(t *testing.T) {
	b, err := fakebroker.Start(fakebroker.Options{})
	require.NoError(t, err)
	defer b.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(1))
	require.NoError(t, err)
	defer cl.Close()
	require.Error(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: "nobody", Value: []byte("x")}).FirstErr())
}
