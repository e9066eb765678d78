//go:build e2e

package consumer_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	sinkkafka "github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/retry"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// The same as on the imitation, on a real broker: its group coordinator, and events written in transactions of which
// some abort.
func TestRealExactlyOnce(t *testing.T) {
	cluster := testkit.Kafka(t)
	for _, batches := range []bool{false, true} {
		t.Run(fmt.Sprint("batches: ", batches), func(t *testing.T) { proveRealExactlyOnce(t, cluster, batches) })
	}
}

func proveRealExactlyOnce(t *testing.T, cluster *kafka.Cluster, batches bool) {
	name := testkit.Name(t)
	require.NoError(t, cluster.Create(t.Context(),
		kafkaclient.Topic{Name: name, Partitions: 4}, kafkaclient.Topic{Name: name + ".DLT"}))
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.TransactionalID(name))
	require.NoError(t, err)
	defer producer.Close()
	opts := consumer.Options{
		Brokers: cluster.Addrs(), Group: name, Topics: []string{name},
		Pause: time.Millisecond, MaxPause: 20 * time.Millisecond,
	}
	proveExactlyOnce(t, opts, inbox.Insert, batches, func(records ...*kgo.Record) {
		for part := range 6 {
			for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
				require.NoError(t, producer.BeginTransaction())
				share := clones(records[len(records)*part/6 : len(records)*(part+1)/6])
				for _, r := range share {
					r.Topic = name
				}
				require.NoError(t, producer.ProduceSync(t.Context(), share...).FirstErr())
				require.NoError(t, producer.EndTransaction(t.Context(), end))
			}
		}
	})
}

func TestRealOneAggregateStaysInOrder(t *testing.T) {
	cluster := testkit.Kafka(t)
	name := testkit.Name(t)
	require.NoError(t, cluster.Create(t.Context(),
		kafkaclient.Topic{Name: name, Partitions: 4}, kafkaclient.Topic{Name: name + ".DLT"}))
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...))
	require.NoError(t, err)
	defer producer.Close()
	opts := consumer.Options{Brokers: cluster.Addrs(), Group: name, Topics: []string{name}}
	proveOrder(t, opts, func(records ...*kgo.Record) {
		for _, r := range records {
			r.Topic = name
		}
		require.NoError(t, producer.ProduceSync(t.Context(), records...).FirstErr())
	})
}

func TestRealTopicThatIsMadeAgain(t *testing.T) {
	cluster := testkit.Kafka(t)
	for name, test := range madeAgain {
		t.Run(name, func(t *testing.T) {
			name := testkit.Name(t)
			require.NoError(t, cluster.Create(t.Context(),
				kafkaclient.Topic{Name: name, Partitions: 2}, kafkaclient.Topic{Name: name + ".DLT"}))
			proveMadeAgain(t, consumer.Options{
				Brokers: cluster.Addrs(), Group: name, Topics: []string{name}, FromEnd: test.fromEnd,
			}, cluster.Admin(), test.running)
		})
	}
}

func TestRealNullAndEmptyStayApart(t *testing.T) {
	cluster := testkit.Kafka(t)
	name := testkit.Name(t)
	require.NoError(t, cluster.Create(t.Context(),
		kafkaclient.Topic{Name: name, Partitions: 1}, kafkaclient.Topic{Name: name + ".DLT"}))
	proveNull(t, consumer.Options{Brokers: cluster.Addrs(), Group: name, Topics: []string{name}})
}

// Poison at the limits of what the dead-letter topic takes: the letter loses what is too large for it, part by part,
// while other partitions go on, and in the end also the records after it.
//
// Bug (letters): A dead letter of the consumer that was too large for its topic was never cut (kafka-go hides the
// broker's answer in a list), and neither were its headers and key. Cost: its partition stopped permanently.
func TestRealPoisonAtTheSizeLimit(t *testing.T) {
	cluster := testkit.Kafka(t)
	name := testkit.Name(t)
	require.NoError(t, cluster.Create(t.Context(), kafkaclient.Topic{Name: name, Partitions: 2},
		kafkaclient.Topic{Name: name + ".DLT", Configs: map[string]string{"max.message.bytes": "3000"}}))
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer producer.Close()
	large := strings.Repeat("x", 4000)
	var records []*kgo.Record
	put := func(partition int32, key, id, value, header string) {
		records = append(records, &kgo.Record{
			Topic: name, Partition: partition, Key: []byte(key), Value: []byte(value),
			Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(id)}, {Key: "trace", Value: []byte(header)}},
		})
	}
	put(0, "k", "before", "v", "h")
	put(0, "k", "fits", "v", "h")
	put(0, "k", "value", large, "h")
	put(0, "k", "headers", "v", large)
	put(0, large, "key", "v", large)
	put(0, "k", "behind", "v", "h")
	for i := range 200 {
		put(1, "other", fmt.Sprint(i), "v", "h")
	}
	require.NoError(t, producer.ProduceSync(t.Context(), records...).FirstErr())
	var j journal
	var others atomic.Int32
	ended := make(chan struct{}) // the other partition
	opts := consumer.Options{
		Brokers: cluster.Addrs(), Group: name, Topics: []string{name}, Attempts: 3, Budget: time.Minute,
		Pause: 20 * time.Millisecond, MaxPause: 50 * time.Millisecond,
	}
	start(t, opts, func(ctx context.Context, m consumer.Message) error {
		if m.Partition == 0 && m.ID != "before" && m.ID != "behind" {
			select {
			case <-ended:
			case <-ctx.Done(): // the budget is used up, and the letter says so
			}
			return errBad
		}
		j.add(m)
		if m.Partition == 1 && others.Add(1) == 200 {
			close(ended)
		}
		return nil
	})
	j.await(t, 202)
	letters, err := cluster.Read(t.Context(), name+".DLT")
	require.NoError(t, err)
	require.Len(t, letters, 4)
	for i, want := range []struct {
		id, cut, trace string
		key, value     int
	}{
		{"fits", "", "h", 1, 1},
		{"value", "value", "h", 1, 0},
		{"headers", "value,headers", "", 1, 0},
		{"key", "value,headers,key", "", 0, 0},
	} {
		l := letters[i]
		require.Equal(t, want.id, header(l, "id"))
		require.Equal(t, want.cut, header(l, consumer.HeaderCut), want.id)
		require.Equal(t, want.trace, header(l, "trace"), want.id)
		require.Len(t, l.Key, want.key, want.id)
		require.Len(t, l.Value, want.value, want.id)
		require.Equal(t, name, header(l, consumer.HeaderTopic))
		require.Equal(t, "3", header(l, consumer.HeaderAttempts))
	}
}

// A key is held and released on a real broker.
func TestRealHeldKey(t *testing.T) {
	cluster := testkit.Kafka(t)
	name := testkit.Name(t)
	require.NoError(t, cluster.Create(t.Context(), kafkaclient.Topic{Name: name, Partitions: 1},
		kafkaclient.Topic{Name: name + ".DLT", Partitions: 3}))
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...))
	require.NoError(t, err)
	defer producer.Close()
	put := func(ids ...string) {
		for _, id := range ids {
			r := record("k", id)
			r.Topic = name
			require.NoError(t, producer.ProduceSync(t.Context(), r).FirstErr())
		}
	}
	opts := consumer.Options{
		Brokers: cluster.Addrs(), Group: name, Topics: []string{name}, HoldKeys: 10, Pause: time.Millisecond,
		MaxPause: time.Millisecond,
	}
	letters := func() (records []*kgo.Record) {
		records, err := cluster.Read(t.Context(), name+".DLT")
		require.NoError(t, err)
		return records
	}
	put("e1", "e2", "e3")
	stop := start(t, opts, func(context.Context, consumer.Message) error { return consumer.Permanent(errBad) })
	require.Eventually(t, func() bool { return len(letters()) == 3 }, 60*time.Second, 50*time.Millisecond)
	require.NoError(t, stop())
	put("e4")
	n, err := retry.Run(t.Context(), retry.Options{
		Topic: name + ".DLT", Timeout: 20 * time.Second, Progress: silent{},
		Kafka: sinkkafka.Config{Cluster: wire.Cluster{Brokers: cluster.Addrs()}},
	}, done(t))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	var j journal
	start(t, opts, func(_ context.Context, m consumer.Message) error {
		j.add(m)
		return nil
	})
	j.await(t, 4)
	require.Equal(t, []string{"e1", "e2", "e3", "e4"}, j.ids())
	require.Eventually(t, func() bool { return len(letters()) == 4+2+4 }, 30*time.Second, 50*time.Millisecond,
		"four letters, two marks of the retry, and four of the consumer")
}
