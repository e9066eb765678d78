//go:build e2e

package broker_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// realCluster is one broker of Kafka.
type realCluster struct {
	t       testing.TB
	cluster *kafka.Cluster
	version string
}

// TestRealScripts runs the scripts against Kafka 4 and against the last version with ZooKeeper's code still in it.
func TestRealScripts(t *testing.T) {
	for _, version := range []string{"4.1", "3.9"} {
		t.Run(version, func(t *testing.T) {
			c, err := kafka.Start(t.Context(), kafka.Options{Version: version, Settings: map[string]string{
				"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
			}})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, c.Close()) })
			first := connect(t, &realCluster{t, c, version})
			for _, kind := range []int8{0, 1} { // the broker creates its own topics when it is asked
				_, code := first.findCoordinator("first", kind)
				require.Zero(t, code)
			}
			first.close()
			for _, s := range scripts {
				t.Run(s.name, func(t *testing.T) {
					k := &realCluster{t, c, version}
					cl := connect(t, k)
					defer cl.close()
					s.run(cl, k)
				})
			}
		})
	}
}

func (r *realCluster) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", r.cluster.Brokers[0].Addr())
}

func (r *realCluster) topic(name string) {
	require.NoError(r.t, r.cluster.Create(r.t.Context(), kafkaclient.Topic{Name: name, Partitions: 1}))
}

func (r *realCluster) deleteTopic(name string) {
	require.NoError(r.t, r.cluster.Delete(r.t.Context(), name))
	cl := connect(r.t, r)
	defer cl.close()
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) { //waits:ok a pause
		if _, _, code := cl.metadata(name); code == unknownTopic {
			return
		}
		require.True(r.t, time.Now().Before(until))
	}
}

func (r *realCluster) kafka4() bool { return strings.HasPrefix(r.version, "4") }

func (r *realCluster) timeout() int32 { return 2000 }

func (r *realCluster) committed(topic string) (values []string) {
	cl, err := kafkaclient.New(r.cluster.Addrs(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(r.t, err)
	defer cl.Close()
	records, err := cl.Read(r.t.Context(), topic)
	require.NoError(r.t, err)
	for _, rec := range records {
		values = append(values, string(rec.Value))
	}
	return values
}
