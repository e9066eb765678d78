package reader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

func cluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// ours writes records to partition 1 with the connector's producer, and returns their values.
func ours(t *testing.T, cfg kafka.Config, topic string, n int) (values []string) {
	t.Helper()
	cfg.Acked = func(sink.Delivery) {}
	p, err := kafka.New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	for i := range n {
		value := fmt.Sprintf("%d:%08d", i%7, i)
		values = append(values, value)
		require.NoError(t, p.Produce(t.Context(), &router.Record{Topic: topic, Partition: 1, Value: []byte(value)},
			uint64(i)))
	}
	require.NoError(t, p.Drain(t.Context()))
	stop()
	require.NoError(t, <-ended)
	return values
}

func newReader(t *testing.T, brokers []string, change ...func(*wire.Cluster)) *Reader {
	t.Helper()
	cfg := wire.Cluster{Brokers: brokers, RequestTimeout: 20 * time.Second, DialTimeout: 10 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	r, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// all reads whatever there is of the topics.
func (r *Reader) all(t *testing.T, topics ...string) []*sink.Message {
	t.Helper()
	spans, err := r.Spans(t.Context(), topics...)
	require.NoError(t, err)
	var out []*sink.Message
	for _, s := range spans {
		for m, err := range r.Messages(t.Context(), s) {
			require.NoError(t, err)
			out = append(out, m.Clone())
		}
	}
	return out
}

func values(messages []*sink.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, string(m.Value))
	}
	return out
}

func kgoClient(t *testing.T, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic("t")}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// TestReadEveryCodec: null is not empty, headers come in order, and each codec's batches are read, ours and another
// client's.
func TestReadEveryCodec(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster(t, kfake.SeedTopics(3, "t", "ours"))
			cl := kgoClient(t, c.ListenAddrs(), kgo.ProducerBatchCompression(codec),
				kgo.RecordPartitioner(kgo.ManualPartitioner()))
			at := time.UnixMilli(1700000000123)
			big := bytes.Repeat([]byte("0123456789"), 5000)
			sent := []*kgo.Record{
				{
					Partition: 1, Timestamp: at, Key: []byte("k"), Value: big,
					Headers: []kgo.RecordHeader{
						{Key: "id", Value: []byte("1")},
						{Key: "id", Value: nil},
						{Key: "e", Value: []byte{}},
					},
				},
				{Partition: 1, Timestamp: at.Add(time.Second)},
				{Partition: 1, Timestamp: at.Add(-time.Hour), Key: []byte{}, Value: []byte{}},
				{Partition: 2, Timestamp: at, Value: []byte("other")},
			}
			require.NoError(t, cl.ProduceSync(t.Context(), sent...).FirstErr())
			r := newReader(t, c.ListenAddrs())
			got := r.all(t, "t")
			require.Len(t, got, 4)
			m := got[0]
			require.Equal(t, sink.Message{
				Topic: "t", Partition: 1, Offset: 0, Timestamp: at.UnixMilli(), Key: []byte("k"),
				Value: big, Headers: m.Headers,
			}, *m)
			require.Equal(t, "id,id,e", m.Headers[0].Key+","+m.Headers[1].Key+","+m.Headers[2].Key)
			require.Nil(t, m.Headers[1].Value)
			require.Equal(t, []byte{}, m.Headers[2].Value)
			id, ok := m.Header("id")
			require.True(t, ok)
			require.Equal(t, "1", string(id))
			require.Nil(t, got[1].Key)
			require.Nil(t, got[1].Value)
			require.NotNil(t, got[2].Key)
			require.NotNil(t, got[2].Value)
			require.Equal(t, at.Add(-time.Hour).UnixMilli(), got[2].Timestamp)
			require.Equal(t, int64(2), got[2].Offset)
			require.Equal(t, int32(2), got[3].Partition)

			want := ours(t, kafka.Config{Cluster: wire.Cluster{Brokers: c.ListenAddrs()}, Compression: name}, "ours",
				500)
			require.Equal(t, want, values(r.all(t, "ours")))
		})
	}
}

// TestReadRange: From and End cut within a batch, and the iteration may be left and taken up again.
func TestReadRange(t *testing.T) {
	c := cluster(t, kfake.SeedTopics(1, "t"))
	cl := kgoClient(t, c.ListenAddrs())
	var batch []*kgo.Record
	for i := range 10 {
		batch = append(batch, kgo.StringRecord(fmt.Sprint(i)))
	}
	require.NoError(t, cl.ProduceSync(t.Context(), batch...).FirstErr())
	r := newReader(t, c.ListenAddrs())
	read := func(from, end int64, stopAt string) (out []string) {
		for m, err := range r.Messages(t.Context(), sink.Span{Topic: "t", From: from, End: end}) {
			require.NoError(t, err)
			if out = append(out, string(m.Value)); stopAt == string(m.Value) {
				break
			}
		}
		return out
	}
	require.Equal(t, []string{"3", "4", "5"}, read(3, 6, ""))
	require.Equal(t, []string{"0", "1"}, read(0, 10, "1"))
	require.Equal(t, []string{"9"}, read(9, 10, ""))
	require.Empty(t, read(5, 5, ""))
	spans, err := r.Spans(t.Context(), "t", "t")
	require.NoError(t, err)
	require.Equal(t, []sink.Span{{Topic: "t", From: 0, End: 10}}, spans)
	topics, err := r.Topics(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"t"}, topics)
}

// aborting writes committed and aborted transactions of two producers by turns; the partition holds, in order,
// a1 (aborted) b1 (committed) a2 (committed) plain b2 (aborted) and c1 (open).
func aborting(t *testing.T, brokers []string) (end func()) {
	t.Helper()
	ctx := t.Context()
	a := kgoClient(t, brokers, kgo.TransactionalID("a"))
	b := kgoClient(t, brokers, kgo.TransactionalID("b"))
	open := kgoClient(t, brokers, kgo.TransactionalID("c"))
	plain := kgoClient(t, brokers)
	write := func(cl *kgo.Client, v string) {
		for i := range 3 {
			require.NoError(t, cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(v, ".", i))).FirstErr())
		}
	}
	require.NoError(t, a.BeginTransaction())
	require.NoError(t, b.BeginTransaction())
	write(a, "a1")
	write(b, "b1")
	require.NoError(t, a.EndTransaction(ctx, kgo.TryAbort))
	require.NoError(t, a.BeginTransaction())
	write(a, "a2")
	require.NoError(t, b.EndTransaction(ctx, kgo.TryCommit))
	require.NoError(t, b.BeginTransaction())
	write(plain, "plain")
	write(b, "b2")
	require.NoError(t, a.EndTransaction(ctx, kgo.TryCommit))
	require.NoError(t, b.EndTransaction(ctx, kgo.TryAbort))
	write(plain, "more")
	require.NoError(t, open.BeginTransaction())
	write(open, "c1")
	write(plain, "after")
	return func() { require.NoError(t, open.EndTransaction(ctx, kgo.TryCommit)) }
}

func checkAborting(t *testing.T, brokers []string) {
	end := aborting(t, brokers)
	r := newReader(t, brokers, func(cfg *wire.Cluster) { cfg.RequestTimeout = 10 * time.Second })
	want := strings.Fields("b1.0 b1.1 b1.2 a2.0 a2.1 a2.2 plain.0 plain.1 plain.2 more.0 more.1 more.2")
	require.Equal(t, want, values(r.all(t, "t")))
	// From the middle of an aborted transaction on the broker lists it all the same.
	var tail []string
	for m, err := range r.Messages(t.Context(), sink.Span{Topic: "t", From: 1, End: 6}) {
		require.NoError(t, err)
		tail = append(tail, string(m.Value))
	}
	require.Equal(t, want[:3], tail)
	end()
	want = append(want, strings.Fields("c1.0 c1.1 c1.2 after.0 after.1 after.2")...)
	require.Eventually(t, func() bool { return len(r.all(t, "t")) == len(want) }, 30*time.Second, 50*time.Millisecond)
	require.Equal(t, want, values(r.all(t, "t")))
}

func TestReadCommitted(t *testing.T) {
	checkAborting(t, cluster(t, kfake.SeedTopics(1, "t")).ListenAddrs())
}

func TestReadMissingTopic(t *testing.T) {
	r := newReader(t, cluster(t).ListenAddrs())
	_, err := r.Spans(t.Context(), "nowhere")
	require.ErrorIs(t, err, sink.ErrNoTopic)
	require.Equal(t, fault.Operator, fault.KindOf(err))
	require.Contains(t, err.Error(), "topic nowhere")
}

// TestReadFollowsTheLeader: moved partitions, a broken connection and a passing error cost a retry and no record.
func TestReadFollowsTheLeader(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "t"))
	cl := kgoClient(t, c.ListenAddrs())
	for i := range 5 {
		require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(i))).FirstErr())
	}
	r := newReader(t, c.ListenAddrs())
	require.Len(t, r.all(t, "t"), 5)
	leader := c.PartitionInfos("t")[0].Leader
	require.NoError(t, c.MoveTopicPartition("t", 0, (leader+1)%3))
	got := []string{}
	for m, err := range r.Messages(t.Context(), sink.Span{Topic: "t", From: 0, End: 5}) { // by the old leader's address
		require.NoError(t, err)
		got = append(got, string(m.Value))
	}
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, got)
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		return nil, errors.New("cut"),
			true
	})
	require.Len(t, r.all(t, "t"), 5)
}

// TestReadDeletedRecords: what retention took while it was to be read is an error, not a gap.
func TestReadDeletedRecords(t *testing.T) {
	c := cluster(t, kfake.SeedTopics(1, "t"))
	cl := kgoClient(t, c.ListenAddrs())
	for i := range 5 {
		require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(i))).FirstErr())
	}
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 5000
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{
		Topic:      "t",
		Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 0, Offset: 3}},
	}}
	res, err := req.RequestWith(t.Context(), cl)
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(res.Topics[0].Partitions[0].ErrorCode))
	r := newReader(t, c.ListenAddrs())
	require.Equal(t, []string{"3", "4"}, values(r.all(t, "t")))
	for _, err = range r.Messages(t.Context(), sink.Span{Topic: "t", From: 0, End: 5}) {
		require.ErrorContains(t, err, "no longer in the log, which starts at 3")
	}
	require.Equal(t, fault.Operator, fault.KindOf(err))
}

// TestRemoved: the first record that is left and was written in its turn says from when on absence proves something.
func TestRemoved(t *testing.T) {
	c := cluster(t, kfake.SeedTopics(1, "t"))
	cl := kgoClient(t, c.ListenAddrs())
	at := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	for i := range 4 {
		rec := &kgo.Record{Topic: "t", Timestamp: at.Add(time.Duration(i) * time.Hour)}
		if i == 2 {
			rec.Headers = []kgo.RecordHeader{{Key: router.HeaderReplayed, Value: []byte("run")}}
		}
		require.NoError(t, cl.ProduceSync(t.Context(), rec).FirstErr())
	}
	r := newReader(t, c.ListenAddrs())
	for upTo, want := range []time.Time{{}, at.Add(time.Hour), at.Add(3 * time.Hour), at.Add(3 * time.Hour)} {
		_, err := kadm.NewClient(cl).DeleteRecords(t.Context(), kadm.Offsets{"t": {0: {Topic: "t", At: int64(upTo)}}})
		require.NoError(t, err)
		before, err := r.Removed(t.Context(), sink.Span{Topic: "t"})
		require.NoError(t, err)
		require.True(t, want.Equal(before), "%d: %s", upTo, before)
	}
	began := time.Now()
	_, err := kadm.NewClient(cl).DeleteRecords(t.Context(), kadm.Offsets{"t": {0: {Topic: "t", At: 4}}})
	require.NoError(t, err)
	before, err := r.Removed(t.Context(), sink.Span{Topic: "t"})
	require.NoError(t, err)
	require.False(t, before.Before(began), "nothing is left, so it may have been removed just now")
}

func TestReadEndsWithItsContext(t *testing.T) {
	c := cluster(t, kfake.SeedTopics(1, "t"))
	cl := kgoClient(t, c.ListenAddrs())
	require.NoError(t, cl.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr())
	asked := make(chan struct{})
	hold := make(chan struct{})
	defer close(hold)
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(asked)
		c.SleepControl(func() { <-hold })
		return nil, nil, false
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	r := newReader(t, c.ListenAddrs())
	var err error
	for _, e := range r.Messages(ctx, sink.Span{Topic: "t", End: 1}) {
		err = e
	}
	require.ErrorIs(t, err, context.Canceled)
}
