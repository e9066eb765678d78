package consumer_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"log/slog"
	"math"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// lyingBatch is a batch that says it has so many records, with a checksum that is right.
func lyingBatch(records int32, attributes int16, body []byte) []byte {
	b := kmsg.RecordBatch{
		Length: int32(49 + len(body)), PartitionLeaderEpoch: -1, Magic: 2, Attributes: attributes,
		LastOffsetDelta: max(records-1, 0), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: records, Records: body,
	}
	raw := b.AppendTo(nil)
	const crcAt, crcFrom = 17, 21
	binary.BigEndian.PutUint32(raw[crcAt:], crc32.Checksum(raw[crcFrom:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// TestLiesOfAFetch: a consumer neither ends nor takes the memory that a broker's answer speaks of.
//
// Bug (producer): A consumer and `forward` read answers with a decoder that makes room for whatever a broker says.
// Cost: one answer of a hundred bytes ended the process for lack of memory.
func TestLiesOfAFetch(t *testing.T) {
	if testing.Short() {
		t.Skip("a bomb takes its time")
	}
	zeros := make([]byte, 1<<20)
	var bomb bytes.Buffer
	w, err := zstd.NewWriter(&bomb)
	require.NoError(t, err)
	for range 600 {
		_, err = w.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	for _, lie := range []struct {
		name  string
		batch []byte
		most  uint64 // bytes that may be allocated
	}{
		{"records that are not there", lyingBatch(math.MaxInt32, 0, []byte{2, 0}), 64 << 20},
		{"control records that are not there", lyingBatch(math.MaxInt32, 0x20, []byte{2, 0}), 64 << 20},
		{
			"a record with more headers than bytes",
			lyingBatch(1, 0, []byte{22, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0}), 64 << 20,
		},
		{"a bomb", lyingBatch(1, 4, bomb.Bytes()), 3 << 30},
	} {
		t.Run(lie.name, func(t *testing.T) {
			b := newBed(t, 1)
			lies := 0
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			b.ControlKey(kmsg.Fetch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
				b.KeepControl()
				if lies++; lies > 1 {
					stop()
				}
				asked := req.(*kmsg.FetchRequest)
				if len(asked.Topics) == 0 {
					return nil, nil, false
				}
				res := asked.ResponseKind().(*kmsg.FetchResponse)
				topic := kmsg.NewFetchResponseTopic()
				topic.Topic, topic.TopicID = asked.Topics[0].Topic, asked.Topics[0].TopicID
				part := kmsg.NewFetchResponseTopicPartition()
				part.HighWatermark, part.LastStableOffset, part.RecordBatches = 1, 1, lie.batch
				topic.Partitions = append(topic.Partitions, part)
				res.Topics = append(res.Topics, topic)
				return res, nil, true
			})
			opts := b.options()
			opts.Logger = slog.New(slog.NewTextHandler(&logBuffer{}, nil))
			c, err := consumer.New(opts, func(context.Context, consumer.Message) error { return nil })
			require.NoError(t, err)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			require.NoError(t, c.Run(ctx))
			runtime.ReadMemStats(&after)
			require.Greater(t, lies, 1, "the consumer asks again")
			t.Logf("%d MiB", (after.TotalAlloc-before.TotalAlloc)>>20)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, lie.most)
		})
	}
}
