package reader

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestSearch: a search gives what reading everything and comparing gives, whatever the codec, and reading afterwards
// leaves nothing out.
func TestSearch(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, kfake.SeedTopics(2, "t"))
			cl := kgoClient(t, c.ListenAddrs(), kgo.ProducerBatchCompression(codec),
				kgo.RecordPartitioner(kgo.ManualPartitioner()))
			for i := range 300 {
				rec := &kgo.Record{
					Partition: int32(i % 2), Value: fmt.Appendf(nil, "value %d", i),
					Headers: []kgo.RecordHeader{{Key: "id", Value: fmt.Appendf(nil, "id-%03d", i)}},
				}
				require.NoError(t, cl.ProduceSync(t.Context(), rec).FirstErr())
			}
			r := newReader(t, c.ListenAddrs())
			spans, err := r.Spans(t.Context(), "t")
			require.NoError(t, err)
			needle := []byte("id-123")
			found, given, last := 0, 0, int64(0)
			for _, s := range spans {
				for m, err := range r.Search(t.Context(), s, needle, func(next int64) { last = next }) {
					require.NoError(t, err)
					given++
					if v, _ := m.Header("id"); bytes.Equal(v, needle) {
						found++
						require.Equal(t, "value 123", string(m.Value))
						require.Equal(t, int32(1), m.Partition)
					}
				}
				require.Equal(t, s.End, last, "the search says how far it is")
			}
			require.Equal(t, 1, found)
			require.Less(t, given, 10, "batches without the bytes are not decoded")
			require.Len(t, r.all(t, "t"), 300)
		})
	}
}

// TestSince finds the first record that is not older, in the order of arrival.
func TestSince(t *testing.T) {
	c := cluster(t, kfake.SeedTopics(1, "t"))
	cl := kgoClient(t, c.ListenAddrs())
	for _, ms := range []int64{1000, 3000, 2000, 4000} {
		rec := &kgo.Record{Value: []byte("v"), Timestamp: time.UnixMilli(ms)}
		require.NoError(t, cl.ProduceSync(t.Context(), rec).FirstErr())
	}
	r := newReader(t, c.ListenAddrs())
	spans, err := r.Spans(t.Context(), "t")
	require.NoError(t, err)
	for ms, want := range map[int64]int64{0: 0, 1000: 0, 1001: 1, 2000: 1, 3001: 3, 4001: 4} {
		s, err := r.Since(t.Context(), spans[0], ms)
		require.NoError(t, err)
		require.Equal(t, want, s.From, ms)
	}
}
