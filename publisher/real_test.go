//go:build e2e

package publisher

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// TestRealBrokerDies: two services publish while a real Kafka is killed and comes back. They stay, say so, and go on:
// every event arrives, in order, and none twice, because both have been there all the time.
func TestRealBrokerDies(t *testing.T) {
	const keys, rounds = 20, 30
	cluster, err := kafka.Start(t.Context(), kafka.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	b := newBed(t)
	b.kafka, b.broker = cluster.Client, cluster.Addrs()[0]
	require.NoError(t, b.kafka.Create(t.Context(), kafkaclient.Topic{Name: topic, Partitions: 3}))
	b.migrate()
	o := b.options()
	o.Settings["http.stall"] = "1s"
	first, _ := b.run(o)
	second, _ := b.run(o)
	for n := range rounds {
		for k := range keys {
			b.place(fmt.Sprint(k), n+1)
			first.Kick()
		}
		switch n {
		case rounds / 3:
			cluster.Node(1).Kill()
		case 2 * rounds / 3:
			b.await("one of them says so", func() bool {
				return first.Ready() != nil || second.Ready() != nil
			})
			require.NoError(t, cluster.Node(1).Start(t.Context()))
		}
	}
	b.awaitMarked()
	records := b.records(keys * rounds)
	require.Len(t, records, keys*rounds)
	require.Zero(t, b.ordered(records))
}
