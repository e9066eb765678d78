//go:build e2e

package e2e

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// sharedBroker is the one real broker of this package. Clients receive its proxy's address, the oracle goes past the
// proxy.
var sharedBroker struct {
	cluster *kafka.Cluster
	proxy   *proxy.Proxy
	sync.Mutex
}

func sharedKafka(t *testing.T) (*kafka.Cluster, *proxy.Proxy) {
	t.Helper()
	sharedBroker.Lock()
	defer sharedBroker.Unlock()
	if sharedBroker.cluster != nil {
		return sharedBroker.cluster, sharedBroker.proxy
	}
	var p *proxy.Proxy
	// The broker outlives the test that asks first, so it does not get that test's context.
	c, err := kafka.Start(context.Background(), kafka.Options{
		// Ten seconds by default: so long it would take to notice that a transaction has timed out.
		Settings: map[string]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"},
		Advertise: func(_ int, addr string) string {
			var err error
			p, err = proxy.Start(addr, proxy.Kafka)
			require.NoError(t, err)
			return p.Addr()
		},
	})
	require.NoError(t, err)
	testkit.AtEnd(func() error {
		p.Close()
		return c.Close()
	})
	sharedBroker.cluster, sharedBroker.proxy = c, p
	return c, p
}

// oneCluster lets tests with three brokers follow each other: the JVMs of two such clusters take two cores longer to
// start than a test waits for them.
var oneCluster sync.Mutex

func threeBrokers(t *testing.T, opts kafka.Options) *kafka.Cluster {
	t.Helper()
	oneCluster.Lock()
	t.Cleanup(oneCluster.Unlock) // after the brokers have ended
	opts.Brokers, opts.Heap = 3, "256m"
	return testkit.DedicatedKafka(t, opts)
}

// postgresProxy is between the connector and the database; start the rig with viaDSN.
func postgresProxy(t *testing.T, db *testkit.Database) (*proxy.Proxy, string) {
	t.Helper()
	p, err := proxy.Start(db.Addr(), proxy.Postgres)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p, db.DSNVia(p.Addr(), db.Name)
}
