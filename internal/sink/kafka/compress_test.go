package kafka

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// TestFullBatches: with each codec, of what shrinks and of what does not, batches close to the topic's limit are taken
// without a split and read by another client.
func TestFullBatches(t *testing.T) {
	t.Parallel()
	const limit = 300_000 // several blocks of lz4
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			c := newCluster(t, overTCP)
			require.NoError(t, c.CreateTopic("t", 1, map[string]string{"max.message.bytes": fmt.Sprint(limit)}))
			p, acked := bare(t, Config{Cluster: wire.Cluster{Brokers: c.ListenAddrs()}, Compression: codec})
			noise := rand.NewChaCha8([32]byte{1})
			var sent [][]byte
			for i := range fewer(1500) {
				value := bytes.Repeat([]byte{byte(i)}, 1000+i%100)
				if i%300 < 200 { // runs of one kind fill whole batches
					_, _ = noise.Read(value)
				}
				sent = append(sent, value)
				require.NoError(t, p.Produce(t.Context(), &router.Record{Topic: "t", Partition: 0, Value: value}, 1))
			}
			require.NoError(t, p.Drain(t.Context()))
			require.Equal(t, int32(len(sent)), acked.Load())
			require.Zero(t, testutil.ToFloat64(p.metrics.splits))
			require.Zero(t, testutil.ToFloat64(p.metrics.rewinds))
			cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("t"),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			require.NoError(t, err)
			defer cl.Close()
			for at := 0; at < len(sent); {
				fetches := cl.PollFetches(t.Context())
				require.NoError(t, fetches.Err())
				fetches.EachRecord(func(rec *kgo.Record) {
					require.True(t, bytes.Equal(sent[at], rec.Value), "record %d", at)
					at++
				})
			}
		})
	}
}

// TestLZ4Memory: compressing takes buffers of the size of a block, not of megabytes.
func TestLZ4Memory(t *testing.T) {
	codec, err := codecOf("lz4")
	require.NoError(t, err)
	data := make([]byte, 500_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := chunkWriter{}
	w := codec.NewWriter(&out)
	_, err = w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20))
}
