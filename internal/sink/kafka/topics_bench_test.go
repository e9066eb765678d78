package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// BenchmarkTopics produces records with keys at random to topics of 12 partitions. The broker discards them; what it
// costs to read them is in the figures.
func BenchmarkTopics(b *testing.B) {
	for _, topics := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(topics), func(b *testing.B) { benchmarkTopics(b, topics) })
	}
}

// perBatch is what a batch costs the broker, at the least.
const perBatch = 15 * time.Microsecond

func benchmarkTopics(b *testing.B, topics int) {
	var batches atomic.Int64
	names := manyNames(topics)
	c := newCluster(b, overTCP, kfake.SeedTopics(12, names...))
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		res := req.ResponseKind().(*kmsg.ProduceResponse)
		sent := 0
		for _, rt := range req.(*kmsg.ProduceRequest).Topics {
			sent += len(rt.Partitions)
		}
		batches.Add(int64(sent))
		time.Sleep(time.Duration(sent) * perBatch) //waits:ok the cost of a broker, in a benchmark
		for _, rt := range req.(*kmsg.ProduceRequest).Topics {
			st := kmsg.NewProduceResponseTopic()
			st.Topic = rt.Topic
			for i := len(rt.Partitions) - 1; i >= 0; i-- { // a broker's answer has an order of its own
				sp := kmsg.NewProduceResponseTopicPartition()
				sp.Partition = rt.Partitions[i].Partition
				st.Partitions = append(st.Partitions, sp)
			}
			res.Topics = append(res.Topics, st)
		}
		slices.Reverse(res.Topics)
		return res, nil, true
	})
	var bytes atomic.Int64
	room := make(chan struct{}, 1)
	p, err := New(Config{
		Cluster:   wire.Cluster{Brokers: c.ListenAddrs()},
		Callbacks: sink.Callbacks{Acked: func(d sink.Delivery) { bytes.Add(-d.Bytes); poke(room) }},
	})
	require.NoError(b, err)
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	defer func() { stop(); <-ended }()
	keys := make([][]byte, 100*topics)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "id-%d", i)
	}
	rec := router.Record{
		Partition: -1, Value: make([]byte, 333), Timestamp: time.Now().UnixMilli(),
		Headers: []router.Header{{Key: "id", Value: make([]byte, 36)}, {Key: "position", Value: make([]byte, 25)}},
	}
	send := func(n int) {
		seed := uint32(1)
		for range n {
			seed ^= seed << 13
			seed ^= seed >> 17
			seed ^= seed << 5
			k := int(seed) % len(keys)
			rec.Topic, rec.TopicNumber, rec.Key = names[k%topics], uint32(k%topics)+1, keys[k]
			for bytes.Load() > 32<<20 {
				p.Flush()
				<-room
			}
			bytes.Add(int64(rec.Size()))
			if err := p.Produce(ctx, &rec, 1); err != nil {
				b.Fatal(err)
			}
		}
		require.NoError(b, p.Drain(ctx))
	}
	send(20 * topics)
	b.ReportAllocs()
	b.ResetTimer()
	batches.Store(0)
	send(b.N)
	b.ReportMetric(float64(b.N)/float64(batches.Load()), "records/batch")
}
