package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// wireBytes is the batch as it goes to the broker.
func wireBytes(b *batch) []byte {
	out := append([]byte{}, b.header[:]...)
	for c := range b.chunks() {
		out = append(out, c...)
	}
	return out
}

// decoded reads a batch with franz-go's generated decoder.
func decoded(t *testing.T, raw []byte) (kmsg.RecordBatch, []kmsg.Record) {
	t.Helper()
	var rb kmsg.RecordBatch
	require.NoError(t, rb.ReadFrom(raw))
	require.Equal(t, int32(crc32.Checksum(raw[21:], castagnoli)), rb.CRC)
	require.Equal(t, int32(len(raw)-12), rb.Length)
	var records []kmsg.Record
	for rest := rb.Records; len(rest) > 0; {
		length, n := binary.Varint(rest)
		require.Positive(t, n)
		var rec kmsg.Record
		require.NoError(t, rec.ReadFrom(rest[:n+int(length)]))
		records = append(records, rec)
		rest = rest[n+int(length):]
	}
	return rb, records
}

// records are the shapes an outbox gives: nulls, empties, sizes around each varint and chunk border, old and new times.
func variety() []router.Record {
	var out []router.Record
	r := rand.New(rand.NewPCG(1, 2))
	value := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	for i, n := range []int{0, 1, 62, 63, 64, 65, 127, 128, 2047, 2048, 2049, 8191, 8192, 65535, 65536, 70000, 300000} {
		out = append(out, router.Record{
			Key: fmt.Appendf(nil, "key-%d", i), Value: value(n), Timestamp: 1700000000000 + int64(i)*1000003,
			Headers: []router.Header{{Key: "id", Value: value(16)}, {Key: "null"}, {Key: "", Value: []byte{}}},
		})
	}
	return append(out,
		router.Record{Timestamp: 5}, // older than the first; no key, no value
		router.Record{Key: []byte{}, Value: []byte{}, Timestamp: math.MaxInt32},
		router.Record{Key: []byte("tombstone"), Timestamp: 1700000000000},
	)
}

func fill(t *testing.T, records []router.Record) *batch {
	t.Helper()
	b := newBatch(&partition{topic: &topic{name: "t"}})
	for i := range records {
		before := b.size()
		n := b.append(&records[i], uint64(i), math.MaxInt)
		require.Equal(t, before+n, b.size())
	}
	b.assign(identity{4711, 3}, 17)
	return b
}

func requireRecords(t *testing.T, want []router.Record, rb kmsg.RecordBatch, got []kmsg.Record) {
	t.Helper()
	require.Len(t, got, len(want))
	maxTimestamp := int64(math.MinInt64)
	for i := range want {
		w, g := &want[i], &got[i]
		require.Equal(t, int32(i), g.OffsetDelta)
		require.Equal(t, w.Timestamp, rb.FirstTimestamp+g.TimestampDelta64)
		require.True(t, bytes.Equal(w.Key, g.Key) && (w.Key == nil) == (g.Key == nil), "key %d", i)
		require.True(t, bytes.Equal(w.Value, g.Value) && (w.Value == nil) == (g.Value == nil), "value %d", i)
		require.Len(t, g.Headers, len(w.Headers))
		for j, h := range w.Headers {
			require.Equal(t, h.Key, g.Headers[j].Key)
			require.True(t, bytes.Equal(h.Value, g.Headers[j].Value) && (h.Value == nil) == (g.Headers[j].Value == nil))
		}
		maxTimestamp = max(maxTimestamp, w.Timestamp)
	}
	require.Equal(t, maxTimestamp, rb.MaxTimestamp)
}

func TestBatchEncoding(t *testing.T) {
	records := variety()
	b := fill(t, records)
	b.stamp()
	raw := wireBytes(b)
	require.Len(t, raw, b.size())
	rb, got := decoded(t, raw)
	require.Equal(t, int8(2), rb.Magic)
	require.Equal(t, int16(0), rb.Attributes)
	require.Equal(t, int64(4711), rb.ProducerID)
	require.Equal(t, int16(3), rb.ProducerEpoch)
	require.Equal(t, int32(17), rb.FirstSequence)
	require.Equal(t, int32(len(records)), rb.NumRecords)
	require.Equal(t, int32(len(records)-1), rb.LastOffsetDelta)
	requireRecords(t, records, rb, got)

	// A new place in the sequence changes header and checksum only.
	b.assign(identity{4711, 4}, 0)
	b.stamp()
	again := wireBytes(b)
	rb, got = decoded(t, again)
	require.Equal(t, int16(4), rb.ProducerEpoch)
	require.Equal(t, int32(0), rb.FirstSequence)
	require.Equal(t, raw[wire.HeaderSize:], again[wire.HeaderSize:])
	requireRecords(t, records, rb, got)
}

// TestBatchCompression reads compressed batches with kafka-go's reader, the other implementation at hand.
func TestBatchCompression(t *testing.T) {
	for code, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(name, func(t *testing.T) {
			var records []router.Record
			for i := range 200 {
				records = append(records, router.Record{
					Key: fmt.Appendf(nil, "%d", i), Value: bytes.Repeat([]byte("abc"), 10+i),
					Timestamp: int64(i),
				})
			}
			b := fill(t, records)
			before := b.size()
			codec, err := codecOf(name)
			require.NoError(t, err)
			require.NoError(t, b.finish(codec))
			b.stamp()
			require.Equal(t, int8(code), b.codec)
			if code > 0 {
				require.Less(t, b.size(), before/2)
			}
			raw := wireBytes(b)
			sized := append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)
			var set protocol.RecordSet
			_, err = set.ReadFrom(bytes.NewReader(sized))
			require.NoError(t, err)
			for i := range records {
				rec, err := set.Records.ReadRecord()
				require.NoError(t, err)
				key, err := io.ReadAll(rec.Key)
				require.NoError(t, err)
				value, err := io.ReadAll(rec.Value)
				require.NoError(t, err)
				require.Equal(t, records[i].Key, key)
				require.Equal(t, records[i].Value, value)
			}
			require.NoError(t, b.finish(codec), "finishing twice does nothing")
			require.Equal(t, raw, wireBytes(b))
			b.free()
		})
	}
}

func TestIncompressibleGoesAsItIs(t *testing.T) {
	value := make([]byte, 5000)
	r := rand.NewChaCha8([32]byte{})
	_, _ = r.Read(value)
	records := []router.Record{{Value: value}}
	for _, name := range []string{"gzip", "snappy", "lz4", "zstd"} {
		b := fill(t, records)
		before := b.size()
		codec, _ := codecOf(name)
		require.NoError(t, b.finish(codec))
		b.stamp()
		require.Equal(t, before, b.size(), name)
		rb, got := decoded(t, wireBytes(b))
		requireRecords(t, records, rb, got)
	}
}

func TestBatchLimit(t *testing.T) {
	b := newBatch(&partition{topic: &topic{}})
	rec := &router.Record{Value: make([]byte, 1000)}
	require.Positive(t, b.append(rec, 1, 500), "the first always fits")
	limit := b.size() + 1000 + 9 // value, and what a record without key and headers adds
	require.Zero(t, b.append(rec, 2, limit-1))
	require.Equal(t, int32(1), b.records)
	require.Positive(t, b.append(rec, 2, limit))
	require.Equal(t, limit, b.size())
}

func TestSequenceWrapsAround(t *testing.T) {
	require.Equal(t, int32(5), advance(0, 5))
	require.Equal(t, int32(math.MaxInt32), advance(math.MaxInt32-1, 1))
	require.Equal(t, int32(0), advance(math.MaxInt32, 1))
	require.Equal(t, int32(6), advance(math.MaxInt32-3, 10))
}

func TestEpochsEnd(t *testing.T) {
	id, ok := identity{1, 0}.bumped()
	require.True(t, ok)
	require.Equal(t, identity{1, 1}, id)
	id, ok = identity{1, maxEpoch - 1}.bumped()
	require.True(t, ok)
	require.Equal(t, int16(maxEpoch), id.epoch)
	_, ok = id.bumped()
	require.False(t, ok, "then a new producer id is due")
}

func TestHalves(t *testing.T) {
	for _, name := range []string{"none", "lz4", "gzip", "snappy", "zstd"} {
		t.Run(name, func(t *testing.T) {
			records := variety()
			for i := range records {
				if i%3 == 1 {
					records[i].Tag = i
				}
			}
			b := fill(t, records)
			b.assign(identity{9, 1}, math.MaxInt32-4)
			codec, _ := codecOf(name)
			require.NoError(t, b.finish(codec))
			left, right, err := b.halves()
			require.NoError(t, err)
			require.Equal(t, b.records, left.records+right.records)
			require.Equal(t, b.window, left.window+right.window)
			require.Equal(t, b.tickets, append(append([]uint64{}, left.tickets...), right.tickets...))
			tagged := append([]sink.Tag{}, left.tags...)
			for _, tag := range right.tags {
				tagged = append(tagged, sink.Tag{Record: tag.Record + left.records, Tag: tag.Tag})
			}
			require.Equal(t, b.tags, tagged)
			require.NotEmpty(t, left.tags)
			require.NotEmpty(t, right.tags)
			require.Equal(t, b.sequence, left.sequence)
			require.Equal(t, advance(left.sequence, left.records), right.sequence)
			at := 0
			for _, half := range []*batch{left, right} {
				require.Equal(t, b.identity, half.identity)
				half.stamp()
				rb, got := decoded(t, wireBytes(half))
				requireRecords(t, records[at:at+int(half.records)], rb, got)
				at += int(half.records)
			}
		})
	}
}

func TestHalvesOfDamage(t *testing.T) {
	b := fill(t, variety()[:4])
	b.tail = b.tail[:len(b.tail)-3]
	_, _, err := b.halves()
	require.Error(t, err)
}

func TestProduceRequestFrame(t *testing.T) {
	var r request
	for _, at := range []struct {
		topic string
		index int32
	}{{"b", 3}, {"a", 7}, {"b", 1}} {
		b := fill(t, variety()[:5])
		b.part.topic.name, b.part.topic.number, b.part.index = at.topic, uint32(at.topic[0]), at.index
		b.stamp()
		r.batches = append(r.batches, b)
	}
	r.batches[2].part.topic = r.batches[0].part.topic
	r.id, r.version = 42, 8
	r.arrange()

	var f frame
	for range 2 { // the second time over the first one's buffers
		buffers := f.encode(&r, "client", 1500000000)
		var raw bytes.Buffer
		_, err := buffers.WriteTo(&raw)
		require.NoError(t, err)
		require.Equal(t, uint32(raw.Len()-4), binary.BigEndian.Uint32(raw.Bytes()))
		head := kmsg.ProduceRequest{Version: 8}
		require.NoError(t, head.ReadFrom(raw.Bytes()[4+2+2+4+2+len("client"):]))
		require.Nil(t, head.TransactionID)
		require.Equal(t, int16(-1), head.Acks)
		require.Equal(t, int32(1500), head.TimeoutMillis)
		require.Len(t, head.Topics, 2)
		require.Equal(t, "a", head.Topics[0].Topic)
		require.Equal(t, "b", head.Topics[1].Topic)
		require.Len(t, head.Topics[1].Partitions, 2)
		require.Equal(t, int32(1), head.Topics[1].Partitions[0].Partition)
		require.Equal(t, wireBytes(r.batches[2]), head.Topics[1].Partitions[1].Records)
	}
}
