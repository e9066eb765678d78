//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/lies"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// TestLiesOfABroker: whatever a broker answers, the connector's memory is bounded, SIGTERM ends it, nothing that the
// broker says reaches a terminal, and when it is honest again each event is there once.
func TestLiesOfABroker(t *testing.T) {
	asked := []int16{
		kmsg.ApiVersions.Int16(), kmsg.Metadata.Int16(), kmsg.Produce.Int16(), kmsg.InitProducerID.Int16(),
		kmsg.FindCoordinator.Int16(), kmsg.OffsetFetch.Int16(), kmsg.AddPartitionsToTxn.Int16(),
		kmsg.TxnOffsetCommit.Int16(), kmsg.EndTxn.Int16(), kmsg.DescribeConfigs.Int16(), kmsg.Fetch.Int16(),
		kmsg.ListOffsets.Int16(),
	}
	peers := make([]*proxy.Proxy, len(asked))
	var ways []kafka.Listener
	for i := range asked {
		ways = append(ways, kafka.Listener{
			Name: fmt.Sprintf("WAY%d", i), Protocol: "PLAINTEXT", Advertise: func(_ int, addr string) string {
				var err error
				peers[i], err = proxy.Start(addr, proxy.Kafka)
				require.NoError(t, err)
				t.Cleanup(peers[i].Close)
				return peers[i].Addr()
			},
		})
	}
	c := testkit.DedicatedKafka(t, kafka.Options{Listeners: ways})
	committed, err := c.Inside(kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(t, err)
	t.Cleanup(committed.Close)
	for i, key := range asked {
		t.Run(kmsg.NameForKey(key), func(t *testing.T) {
			t.Parallel()
			db := testkit.Postgres(t)
			emptyTable(t, db)
			topic := kafkaclient.Topic{Name: db.Name + ".events", Partitions: 1}
			require.NoError(t, c.Create(within(t, patience), topic))
			v := &victim{once: true, peer: peers[i], what: kmsg.NameForKey(key), rig: &rig{
				T: t, db: db, kafka: &kafka.Cluster{Client: committed}, env: map[string]string{
					"CDC_OUTBOX_POSTGRES_DSN": db.DSN, "CDC_OUTBOX_POSTGRES_SLOT": db.Slot,
					"CDC_OUTBOX_POSTGRES_PUBLICATION": db.Publication, "CDC_OUTBOX_DELIVERY": "exactly_once",
					"CDC_OUTBOX_KAFKA_BROKERS": peers[i].Addr(),
				},
			}}
			v.begin()
			for _, kind := range some(t, lies.Kafka(), 1) {
				v.lieTo(kind, func(a proxy.Answer) bool { return a.Key == key })
			}
		})
	}
}
