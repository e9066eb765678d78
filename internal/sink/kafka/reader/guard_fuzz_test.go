package reader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// bodyOf is an answer of version 11 with these batches.
func bodyOf(batches []byte) []byte {
	res := kmsg.NewPtrFetchResponse()
	res.Version = 11
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic = "t"
	part := kmsg.NewFetchResponseTopicPartition()
	part.RecordBatches = batches
	topic.Partitions = append(topic.Partitions, part)
	res.Topics = append(res.Topics, topic)
	return res.AppendTo(nil)
}

// codecs are all that Kafka has.
var codecs = []kgo.CompressionCodec{
	kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(),
	kgo.ZstdCompression(),
}

// batches come from a real producer, one for each codec.
func batches(t testing.TB) (all [][]byte) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	require.NoError(t, err)
	defer c.Close()
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		all = append(all, bytes.Clone(req.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records))
		return nil, nil, false
	})
	for _, codec := range codecs {
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ProducerBatchCompression(codec),
			kgo.DefaultProduceTopic("t"))
		require.NoError(t, err)
		require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{
			Key: []byte("k"), Value: bytes.Repeat([]byte("value"), 20),
			Headers: []kgo.RecordHeader{{Key: "id", Value: []byte("1")}, {Key: "none"}},
		}).FirstErr())
		cl.Close()
	}
	return all
}

// FuzzGuardedFetch: kafka-go decodes an answer that the guard lets through without a panic, in memory that the batch's
// own bytes explain.
func FuzzGuardedFetch(f *testing.F) {
	for _, b := range batches(f) {
		f.Add(b)
		f.Add(append(bytes.Clone(b), b...))
		f.Add(b[:len(b)-3])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, records []byte) {
		body := bodyOf(records)
		var f fetchBuffer
		if f.judge(body, 11) != nil {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
		frame = append(append(frame, 0, 0, 0, 1), body...)
		_, res, err := protocol.ReadResponse(bytes.NewReader(frame), protocol.Fetch, 11)
		if err == nil {
			for _, topic := range res.(*fetch.Response).Topics {
				for i := range topic.Partitions {
					readAll(topic.Partitions[i].RecordSet.Records)
				}
			}
		}
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20+100*f.plain.out.Len()+100*len(records)))
	})
}

func readAll(set protocol.RecordReader) {
	stream, ok := set.(*protocol.RecordStream)
	if !ok {
		return
	}
	for _, records := range stream.Records {
		for {
			r, err := records.ReadRecord()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					return
				}
				break
			}
			for _, b := range []protocol.Bytes{r.Key, r.Value} {
				if b != nil {
					_, _ = protocol.ReadAll(b)
					_ = b.Close()
				}
			}
		}
	}
}
