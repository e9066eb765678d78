package consumer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// TestCompressions: records of each compression are read, and records of aborted transactions are left out.
func TestCompressions(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1)
	var want []string
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		p, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.ProducerBatchCompression(codec),
			kgo.TransactionalID("tx"))
		require.NoError(t, err)
		for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
			require.NoError(t, p.BeginTransaction())
			for n := range 50 {
				id := fmt.Sprintf("%s-%v-%d", name, end, n)
				if end == kgo.TryCommit {
					want = append(want, id)
				}
				r := record("k", id)
				r.Value = []byte(strings.Repeat(id, 20))
				require.NoError(t, p.ProduceSync(t.Context(), r).FirstErr())
			}
			require.NoError(t, p.EndTransaction(t.Context(), end))
		}
		p.Close()
	}
	var j journal
	stop := start(t, b.options(), func(_ context.Context, m consumer.Message) error { j.add(m); return nil })
	j.await(t, len(want))
	require.NoError(t, stop())
	require.Equal(t, want, j.ids())
}
