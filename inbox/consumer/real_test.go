//go:build e2e

package consumer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/internal/testkit"
	"github.com/cdc-outbox/cdc-outbox/internal/testkit/kafkaclient"
)

// The same as on the imitation, on a real broker: its group coordinator, and events written in transactions of which some abort.
func TestRealExactlyOnce(t *testing.T) {
	cluster := testkit.Kafka(t)
	name := testkit.Name(t)
	require.NoError(t, cluster.Create(t.Context(), kafkaclient.Topic{Name: name, Partitions: 4}, kafkaclient.Topic{Name: name + ".DLT"}))
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.TransactionalID(name))
	require.NoError(t, err)
	defer producer.Close()
	opts := Options{Brokers: cluster.Addrs(), Group: name, Topics: []string{name}, Pause: time.Millisecond, MaxPause: 20 * time.Millisecond}
	proveExactlyOnce(t, opts, inbox.Insert, func(records ...*kgo.Record) {
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
