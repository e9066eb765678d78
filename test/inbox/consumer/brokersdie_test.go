//go:build e2e

package consumer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// TestRealBrokersDie: each broker of three is killed in turn and comes back, with the group's coordinator and the
// leader of each partition among them, while two members handle. Each event is handled, the events of a key in their
// order (apart from repeats), none is dead-lettered, and a member that joins meanwhile gets its share.
func TestRealBrokersDie(t *testing.T) {
	cluster := testkit.DedicatedKafka(t, kafka.Options{Brokers: 3})
	name := testkit.Name(t)
	require.NoError(t, cluster.Create(t.Context(),
		kafkaclient.Topic{Name: name, Partitions: 6, Replicas: 3},
		kafkaclient.Topic{Name: name + ".DLT", Partitions: 1, Replicas: 3}))
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.UnknownTopicRetries(-1))
	require.NoError(t, err)
	defer producer.Close()

	const keys, rounds = 20, 90
	var mu sync.Mutex
	last := map[string]int{} // by key
	repeats, gaps := 0, 0
	handle := func(_ context.Context, m consumer.Message) error {
		mu.Lock()
		defer mu.Unlock()
		var round int
		_, err := fmt.Sscanf(m.ID, string(m.Key)+"-%d", &round)
		switch key := string(m.Key); {
		case err != nil:
			return err
		case round <= last[key]:
			repeats++
		case round > last[key]+1:
			gaps++
			t.Errorf("%s after %d", m.ID, last[key])
			fallthrough
		default:
			last[key] = round
		}
		return nil
	}
	done := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, round := range last {
			n += round
		}
		return n
	}
	opts := consumer.Options{
		Brokers: cluster.Addrs(), Group: name, Topics: []string{name}, Drain: time.Second,
		Pause: time.Millisecond, MaxPause: 20 * time.Millisecond,
	}
	stops := []func() error{start(t, opts, handle)}
	for round := 1; round <= rounds; round++ {
		for key := range keys {
			r := record(fmt.Sprintf("k%d", key), fmt.Sprintf("k%d-%d", key, round))
			r.Topic = name
			require.NoError(t, producer.ProduceSync(t.Context(), r).FirstErr())
		}
		node := cluster.Node(int32((round-1)/30) + 1)
		switch round % 30 {
		case 10:
			node.Kill()
		case 15:
			stops = append(stops, start(t, opts, handle))
		case 20:
			require.NoError(t, node.Start(t.Context()))
		case 25:
			require.NoError(t, stops[0]())
			stops = stops[1:]
		}
	}
	require.Eventually(t, func() bool { return done() == keys*rounds }, 2*time.Minute, 50*time.Millisecond)
	for _, stop := range stops {
		require.NoError(t, stop())
	}
	letters, err := cluster.Read(t.Context(), name+".DLT")
	require.NoError(t, err)
	require.Empty(t, letters)
	t.Logf("%d events, %d repeats", keys*rounds, repeats)
	require.Zero(t, gaps)
}
