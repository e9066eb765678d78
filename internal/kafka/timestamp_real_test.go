//go:build e2e

package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// TestRealOldRows: a real Kafka deletes the records of old rows as soon as it looks, where they have the rows'
// timestamps, and keeps them where the producer decides. It takes rows from the future, too.
func TestRealOldRows(t *testing.T) {
	ctx := t.Context()
	c, err := kafka.Start(ctx, kafka.Options{Settings: map[string]string{
		"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	const rows = 20
	for _, keep := range []bool{true, false} {
		topic := fmt.Sprint("keep-", keep)
		require.NoError(t, c.Create(ctx, kafkaclient.Topic{
			Name: topic, Partitions: 1, Configs: map[string]string{wire.RetentionMs: "60000"},
		}))
		r := newRigAt(t, c.Addrs(), func(cfg *Config) { cfg.KeepTimestamps = keep })
		produce := func(at time.Time) {
			r.ticket++
			require.NoError(t, r.Produce(ctx, &router.Record{
				Topic: topic, Partition: -1, Key: []byte("k"), Value: []byte("v"), Timestamp: at.UnixMilli(),
			}, r.ticket))
		}
		for range rows {
			produce(time.Now().Add(-24 * time.Hour))
		}
		r.drain()
		deleted := func() int64 {
			starts, err := c.Admin().ListStartOffsets(ctx, topic)
			require.NoError(t, err)
			at, _ := starts.Lookup(topic, 0)
			return at.Offset
		}
		if keep {
			require.Eventually(t, func() bool { return deleted() == rows }, time.Minute, 100*time.Millisecond)
			continue
		}
		require.Never(t, func() bool { return deleted() > 0 }, 5*time.Second, 200*time.Millisecond)
		produce(time.Now().Add(2 * time.Hour)) // Kafka 4 takes an hour
		r.drain()
	}
}
