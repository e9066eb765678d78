//go:build e2e

package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

const oldRows = 20

// TestRealOldRows: a real Kafka deletes the records of old rows as soon as it looks, where they have the rows'
// timestamps, and keeps them where the producer decides. It takes rows from the future, too.
//
// Bug (producer): Rows that were older than their topic's retention (a snapshot, a replay, a backlog after an outage)
// were published with their own timestamp. Cost: Kafka acknowledged them and deleted them within minutes.
func TestRealOldRows(t *testing.T) {
	ctx := t.Context()
	c, err := kafka.Start(ctx, kafka.Options{Settings: map[string]string{
		"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "500",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	start := func(topic string) (int64, error) {
		starts, err := c.Admin().ListStartOffsets(ctx, topic)
		if err != nil {
			return 0, err
		}
		at, _ := starts.Lookup(topic, 0)
		return at.Offset, at.Err
	}
	topic := func(keep bool) (string, func(time.Time)) {
		name := fmt.Sprint("keep-", keep)
		require.NoError(t, c.Create(ctx, kafkaclient.Topic{
			Name: name, Partitions: 1, Configs: map[string]string{wire.RetentionMs: "60000"},
		}))
		r := newRigAt(t, c.Addrs(), func(cfg *Config) { cfg.KeepTimestamps = keep })
		return name, func(at time.Time) {
			for range oldRows {
				r.ticket++
				require.NoError(t, r.Produce(ctx, &router.Record{
					Topic: name, Partition: -1, Key: []byte("k"), Value: []byte("v"), Timestamp: at.UnixMilli(),
				}, r.ticket))
			}
			r.drain()
		}
	}
	rows, rowsTo := topic(true)
	producer, producerTo := topic(false)
	yesterday := time.Now().Add(-24 * time.Hour)
	producerTo(yesterday)
	// Kafka looks at all topics in one pass. The second time that it deletes from the one, it has looked at the other.
	for pass := range int64(2) {
		rowsTo(yesterday)
		require.Eventually(t, func() bool {
			at, err := start(rows)
			return err == nil && at == (pass+1)*oldRows
		}, time.Minute, 100*time.Millisecond)
	}
	at, err := start(producer)
	require.NoError(t, err)
	require.Zero(t, at, "the producer's time keeps the records")
	producerTo(time.Now().Add(2 * time.Hour)) // Kafka 4 takes an hour
}
