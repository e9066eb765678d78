package reader

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"testing"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"

	"github.com/segmentio/kafka-go/compress"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// encoded is a batch as another client writes it.
func encoded(t testing.TB, codec string, records ...router.Record) []byte {
	t.Helper()
	var body []byte
	for i, r := range records {
		rec := kmsg.Record{OffsetDelta: int32(i), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
		}
		rec.Length = int32(len(rec.AppendTo(nil))) - 1
		body = rec.AppendTo(body)
	}
	var compression compress.Compression
	if codec != "none" {
		require.NoError(t, compression.UnmarshalText([]byte(codec)))
		var small bytes.Buffer
		w := compression.Codec().NewWriter(&small)
		_, err := w.Write(body)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		body = small.Bytes()
	}
	out := (&kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: int16(compression), LastOffsetDelta: int32(len(records) - 1),
		ProducerID: 7, NumRecords: int32(len(records)), Records: body,
	}).AppendTo(nil)
	binary.BigEndian.PutUint32(out[wire.AtLength:], uint32(len(out)-wire.AtLeaderEpoch))
	sum(out)
	return out
}

func sum(b []byte) {
	binary.BigEndian.PutUint32(b[wire.AtCRC:], crc32.Checksum(b[wire.AtAttributes:], crcTable))
}

func scanned(b []byte) (n int, next int64, err error) {
	var f fetchBuffer
	next, _, err = f.scan(&fetchAnswer{records: b}, sink.Span{Topic: "t", End: 1 << 40}, 0,
		func(*sink.Message) bool { n++; return true })
	return n, next, err
}

func TestDecodeDamage(t *testing.T) {
	whole := encoded(t, "none", router.Record{
		Key: []byte("k"), Value: []byte("v"),
		Headers: []router.Header{{Key: "h"}},
	},
		router.Record{})
	n, next, err := scanned(whole)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, int64(2), next)

	n, next, err = scanned(append(append([]byte{}, whole...), whole[:40]...)) // cut off, as brokers do
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, int64(2), next)

	damage := map[string]func([]byte){
		"checksum":           func(b []byte) { b[len(b)-1] ^= 1 },
		"message format 1":   func(b []byte) { b[wire.AtMagic] = 1 },
		"a batch of":         func(b []byte) { binary.BigEndian.PutUint32(b[wire.AtLength:], 5) },
		"make no sense":      func(b []byte) { binary.BigEndian.PutUint32(b[wire.AtLastOffsetDelta:], 1<<31); sum(b) },
		"within a field":     func(b []byte) { binary.BigEndian.PutUint32(b[wire.AtRecords:], 3); sum(b) },
		"is unknown":         func(b []byte) { b[wire.AtAttributes+1] = 6; sum(b) },
		"the batch is not w": func(b []byte) { binary.BigEndian.PutUint32(b[wire.AtLength:], 1<<20) },
	}
	for want, f := range damage {
		b := append([]byte{}, whole...)
		f(b)
		_, _, err := scanned(b)
		require.ErrorContains(t, err, want)
	}
}

// TestDecodeLies: false lengths cost no memory.
func TestDecodeLies(t *testing.T) {
	lie := func(codec byte, body []byte) []byte {
		b := append(encoded(t, "none", router.Record{})[:wire.HeaderSize:wire.HeaderSize], body...)
		binary.BigEndian.PutUint32(b[wire.AtLength:], uint32(len(b)-wire.AtLeaderEpoch))
		b[wire.AtAttributes+1] = codec
		sum(b)
		return b
	}
	for name, b := range map[string][]byte{
		"snappy block":  lie(2, []byte{0xff, 0xff, 0xff, 0xff, 0x07, 0}),
		"xerial frame":  lie(2, append(append([]byte{}, xerial...), 0, 0, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 1)),
		"record length": lie(0, binary.AppendVarint(nil, 1<<40)),
		"headers": lie(0, append(binary.AppendVarint(nil, 15),
			append([]byte{0, 0, 0, 1, 1}, binary.AppendVarint(nil, 1<<40)...)...)),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := scanned(b)
		runtime.ReadMemStats(&after)
		require.Error(t, err, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), name)
	}
	_, err := parseFetch([]byte{
		0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff,
	}, 4)
	require.ErrorContains(t, err, "aborted transactions")
}

// FuzzDecode: whatever a broker sends is an error or records, without a panic.
func FuzzDecode(f *testing.F) {
	rec := router.Record{
		Key: []byte("key"), Value: []byte("value value value value value value value"),
		Headers: []router.Header{{Key: "id", Value: []byte("1")}},
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		f.Add(encoded(f, codec, rec, rec, rec, rec))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > wire.HeaderSize && len(b) < 1<<16 { // past the checksum
			binary.BigEndian.PutUint32(b[wire.AtLength:], uint32(len(b)-wire.AtLeaderEpoch))
			b[wire.AtMagic] = 2
			sum(b)
		}
		n, _, _ := scanned(b)
		if n > 64*len(b)*1000 {
			t.Fatalf("%d records from %d bytes", n, len(b))
		}
		for _, version := range []int16{4, 7, 11} {
			_, _ = parseFetch(b, version)
		}
	})
}
