//go:build e2e

package kafka

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest/observer"
)

// TestRealTransactionsAreQuiet: half a minute of transactions on a healthy broker brings no warning, although the
// broker refuses batches that it has yet to verify.
func TestRealTransactionsAreQuiet(t *testing.T) {
	c := realKafka(t, "t", 12)
	var logs *observer.ObservedLogs
	r := newRigAt(t, c.Addrs(), exactlyOnce("first"), func(cfg *Config) {
		logs = observed(cfg)
		cfg.pace = defaultPace()
		cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 200 // several requests at once, each of which is verified
	}).start()
	r.transact(5, "t")
	r.drain()
	logs.TakeAll() // a cluster that has just started creates its coordinators now
	//waits:ok half a minute of transactions is the test
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		r.transact(40, "t")
	}
	r.drain()
	t.Logf("%v retries", testutil.ToFloat64(r.metrics.retries.WithLabelValues("NOT_ENOUGH_REPLICAS")))
	require.Empty(t, logs.All())
}
