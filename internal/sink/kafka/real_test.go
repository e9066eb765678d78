//go:build e2e

package kafka

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

func realKafka(t testing.TB, topic string, partitions int32) *kafka.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := kafka.Start(ctx, kafka.Options{Heap: "768m"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.Create(ctx, kafkaclient.Topic{Name: topic, Partitions: partitions}))
	return c
}

// TestRealSequenceWraps: a partition's sequence passes 2^31-1, with a rewind across it, and with batches split across
// it. kfake wraps one too early.
func TestRealSequenceWraps(t *testing.T) {
	c := realKafka(t, "cut", 1)
	require.NoError(t, c.Create(t.Context(), kafkaclient.Topic{Name: "split", Partitions: 1}))
	for _, topic := range []string{"cut", "split"} {
		for before := range int32(4) { // so that the wrap falls on each place in a batch
			t.Run(fmt.Sprint(topic, " ", before), func(t *testing.T) { sequenceWraps(t, c, topic, 20+before) })
		}
	}
}

func sequenceWraps(t *testing.T, c *kafka.Cluster, topic string, before int32) {
	limit := func(bytes string) {
		_, err := c.Admin().AlterTopicConfigs(t.Context(),
			[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr(bytes)}}, topic)
		require.NoError(t, err)
		time.Sleep(500 * time.Millisecond) //waits:ok no answer reports that the log knows its topic's setting
	}
	limit("100000")
	skip, err := c.Count(t.Context(), topic)
	require.NoError(t, err)
	d := newFaultDial()
	r := newRigAt(t, c.Addrs(), func(cfg *Config) {
		cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 200
		cfg.Dial = d.dial
	})
	r.lock()
	r.topic(topic)
	for !r.topics[topic].ready() {
		require.NoError(t, r.await(context.Background()))
	}
	part := r.topics[topic].partitions[0]
	part.nextSequence = math.MaxInt32 - before
	r.Producer.mu.Unlock()

	r.produce(topic, "k")
	r.drain()
	if topic == "cut" {
		d.arm(cutAfterAppend, 3, 0)
	} else {
		limit("200")
	}
	for range 60 {
		r.produce(topic, "k")
	}
	r.drain()
	if topic == "cut" {
		require.Equal(t, 1, d.count())
	} else {
		require.Positive(t, testutil.ToFloat64(r.metrics.splits))
	}
	var got []string
	require.NoError(t, c.Each(t.Context(), []string{topic},
		func(rec *kgo.Record) { got = append(got, string(rec.Value)) }))
	require.Equal(t, r.sent[topic], got[skip:])
	r.checkAcks()
	r.lock()
	defer r.Producer.mu.Unlock()
	require.Zero(t, r.id.epoch)
	require.Less(t, part.nextSequence, int32(100))
}

// BenchmarkClients compares the CPU of this process, which is what the producer costs a connector, with franz-go's.
func BenchmarkClients(b *testing.B) {
	const topic, partitions = "t", 12
	c := realKafka(b, topic, partitions)
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "0198c2a4-%04x-7000-8000-%012x", i, i*7919)
	}
	value := make([]byte, 333)
	for i := range value {
		value[i] = "0123456789abcdef"[i*7%16]
	}
	id, position := []byte("0198c2a4-0000-7000-8000-000000000000"), []byte("0000000001a2b3c4-00000001")

	b.Run("producer", func(b *testing.B) {
		var bytes atomic.Int64
		p, err := New(Config{
			Cluster:   wire.Cluster{Brokers: c.Addrs()},
			Callbacks: sink.Callbacks{Acked: func(d sink.Delivery) { bytes.Add(-d.Bytes) }},
		})
		require.NoError(b, err)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		rec := router.Record{
			Topic: topic, Partition: -1, Value: value, Timestamp: 1700000000000,
			Headers: []router.Header{
				{Key: "id", Value: id},
				{Key: "type", Value: []byte("OrderPlaced")},
				{Key: "position", Value: position},
			},
		}
		rec.Key = keys[0]
		require.NoError(b, p.Produce(ctx, &rec, 0))
		require.NoError(b, p.Drain(ctx))
		measure(b, func() {
			for i := range b.N {
				rec.Key = keys[i%len(keys)]
				for bytes.Add(int64(rec.Size())) > 32<<20 {
					bytes.Add(-int64(rec.Size()))
					p.Flush()
					time.Sleep(time.Millisecond) //waits:ok a benchmark's window is full
				}
				if err := p.Produce(ctx, &rec, uint64(i)); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, p.Drain(ctx))
		})
		stop()
		require.NoError(b, <-ended)
	})
	b.Run("franz-go", func(b *testing.B) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.MaxBufferedBytes(32<<20),
			kgo.MaxBufferedRecords(1_000_000),
			kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0),
			kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
		require.NoError(b, err)
		defer cl.Close()
		measure(b, func() {
			for i := range b.N {
				cl.Produce(context.Background(), &kgo.Record{
					Topic: topic, Key: keys[i%len(keys)], Value: value, Timestamp: time.UnixMilli(1700000000000),
					Headers: []kgo.RecordHeader{
						{Key: "id", Value: id},
						{Key: "type", Value: []byte("OrderPlaced")},
						{Key: "position", Value: position},
					},
				}, nil)
			}
			require.NoError(b, cl.Flush(context.Background()))
		})
	})
}

// measure reports CPU seconds per million records and allocations per record of the process.
func measure(b *testing.B, f func()) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := cpu()
	b.ResetTimer()
	f()
	b.StopTimer()
	spent := cpu() - start
	runtime.ReadMemStats(&after)
	b.ReportMetric(spent.Seconds()/float64(b.N)*1e6, "cpu-s/M")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N), "allocs/record")
	b.ReportMetric(float64(after.Sys)/(1<<20), "sys-MiB")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
