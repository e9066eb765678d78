//go:build e2e

package kafka_test

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/port"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func start(t *testing.T, opts kafka.Options) *kafka.Cluster {
	t.Helper()
	began := time.Now()
	c, err := kafka.Start(t.Context(), opts)
	require.NoError(t, err)
	t.Logf("up after %v", time.Since(began))
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func produce(t *testing.T, c *kafka.Cluster, value string) error {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...))
	require.NoError(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return cl.ProduceSync(ctx, &kgo.Record{Topic: "a", Value: []byte(value)}).FirstErr()
}

func TestBrokerKeepsRecordsOverFaults(t *testing.T) {
	p, err := port.Free()
	require.NoError(t, err)
	c := start(t, kafka.Options{Port: p})
	require.Equal(t, []string{port.Addr(p)}, c.Addrs())
	b := c.Brokers[0]
	require.NoError(t, c.Create(t.Context(), kafkaclient.Topic{Name: "a"}))
	require.NoError(t, produce(t, c, "1"))
	b.Kill()
	require.NoError(t, b.Start(t.Context()))
	require.NoError(t, produce(t, c, "2"))
	require.NoError(t, b.Bounce(t.Context()))
	require.NoError(t, b.Signal(syscall.SIGSTOP))
	began := time.Now()
	time.AfterFunc(500*time.Millisecond, func() { _ = b.Signal(syscall.SIGCONT) })
	require.NoError(t, produce(t, c, "3"))
	require.Greater(t, time.Since(began), 400*time.Millisecond, "it was frozen")
	records, err := c.Read(t.Context(), "a")
	require.NoError(t, err)
	require.Len(t, records, 3)
}

func TestClusterMovesKilledLeader(t *testing.T) {
	c := start(t, kafka.Options{Brokers: 3})
	require.NoError(t, c.Create(t.Context(), kafkaclient.Topic{Name: "a"}))
	old, err := c.Leader(t.Context(), "a", 0)
	require.NoError(t, err)
	c.Node(old).Kill()
	require.NoError(t, produce(t, c, "1"))
	require.Eventually(t, func() bool { // the broker that is asked may hear of it last
		now, err := c.Leader(t.Context(), "a", 0)
		return err == nil && now >= 0 && now != old
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, c.Node(old).Start(t.Context()))
}

func TestStartRunsOlderVersions(t *testing.T) {
	for _, version := range []string{"2.8", "3.9"} {
		t.Run(version, func(t *testing.T) {
			if version == "2.8" && os.Getenv("CDC_OUTBOX_TEST_SOAK") == "" {
				t.Skip("one more Kafka to fetch; CDC_OUTBOX_TEST_SOAK=1 does")
			}
			c := start(t, kafka.Options{Version: version})
			require.NoError(t, c.Create(t.Context(), kafkaclient.Topic{Name: "a"}))
			require.NoError(t, produce(t, c, "1"))
		})
	}
}
