package reader

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"math"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	ksasl "github.com/twmb/franz-go/pkg/sasl"
	kplain "github.com/twmb/franz-go/pkg/sasl/plain"
	kscram "github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// consumed runs a consumer over guarded connections until it has so many values.
func consumed(t *testing.T, c *kfake.Cluster, n int, login sasl.Mechanism) (values []string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	g, err := consumer.New(consumer.Options{
		Brokers: c.ListenAddrs(), Group: "g", Topics: []string{"t"}, SASL: login,
		Dial: Guard(wire.Cluster{Brokers: c.ListenAddrs()}),
		ID:   func(m consumer.Message) (string, error) { return string(m.Value), nil },
	}, func(_ context.Context, m consumer.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if values = append(values, string(m.Value)); len(values) == n {
			stop()
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, g.Run(ctx))
	mu.Lock()
	defer mu.Unlock()
	return values
}

// TestGuardedConsumer: honest answers pass, with each compression; aborted transactions are left
// out.
func TestGuardedConsumer(t *testing.T) {
	t.Parallel()
	c := cluster(t, kfake.SeedTopics(1, "t", "t.DLT"))
	var want []string
	for i, codec := range codecs {
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ProducerBatchCompression(codec),
			kgo.TransactionalID("tx"), kgo.DefaultProduceTopic("t"))
		require.NoError(t, err)
		for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
			require.NoError(t, cl.BeginTransaction())
			for n := range 50 {
				value := string(rune('a'+i)) + "-" + string(bytes.Repeat([]byte{byte('0' + n%10)}, 100+n))
				if !bool(end) {
					value = "aborted " + value
				} else {
					want = append(want, value)
				}
				require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Value: []byte(value)}).FirstErr())
			}
			require.NoError(t, cl.EndTransaction(t.Context(), end))
		}
		cl.Close()
	}
	require.Equal(t, want, consumed(t, c, len(want), nil))
}

// TestGuardedLogin: both of kafka-go's ways to log in pass.
func TestGuardedLogin(t *testing.T) {
	t.Parallel()
	hashed, err := scram.Mechanism(scram.SHA256, "me", "secret")
	require.NoError(t, err)
	for name, login := range map[string]struct {
		ours sasl.Mechanism
		ksasl.Mechanism
	}{
		"SCRAM-SHA-256": {hashed, kscram.Auth{User: "me", Pass: "secret"}.AsSha256Mechanism()},
		"PLAIN": {
			plain.Mechanism{Username: "me", Password: "secret"}, kplain.Auth{User: "me", Pass: "secret"}.AsMechanism(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, kfake.SeedTopics(1, "t", "t.DLT"), kfake.EnableSASL(),
				kfake.Superuser(name, "me", "secret"))
			cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("t"),
				kgo.SASL(login.Mechanism))
			require.NoError(t, err)
			defer cl.Close()
			require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Value: []byte("v")}).FirstErr())
			require.Equal(t, []string{"v"}, consumed(t, c, 1, login.ours))
		})
	}
}

// lyingBatch is a batch of one record that says it has others, with a checksum that is right.
func lyingBatch(records int32, attributes int16, body []byte) []byte {
	b := make([]byte, wire.HeaderSize, wire.HeaderSize+len(body))
	b = append(b, body...)
	be := binary.BigEndian
	be.PutUint32(b[wire.AtLength:], uint32(len(b)-wire.AtLeaderEpoch))
	b[wire.AtMagic] = 2
	be.PutUint16(b[wire.AtAttributes:], uint16(attributes))
	be.PutUint32(b[wire.AtLastOffsetDelta:], math.MaxInt32-1)
	be.PutUint32(b[wire.AtRecords:], uint32(records))
	be.PutUint32(b[wire.AtCRC:], crc32.Checksum(b[wire.AtAttributes:], crcTable))
	return b
}

// TestLiesOfAFetch: a consumer neither ends nor takes the memory that a broker's answer speaks of.
//
// Bug (producer): `forward` read answers with a decoder that makes room for whatever a broker says. Cost: one answer
// of a hundred bytes ended the process for lack of memory.
func TestLiesOfAFetch(t *testing.T) {
	if testing.Short() {
		t.Skip("the consumer waits a second before it asks again, and a bomb takes its time")
	}
	zeros := make([]byte, 1<<20)
	var bomb bytes.Buffer
	w, err := zstd.NewWriter(&bomb)
	require.NoError(t, err)
	for range 400 {
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
		{"control records that are not there", lyingBatch(math.MaxInt32, controlBatch, []byte{2, 0}), 64 << 20},
		{
			"a record with more headers than bytes",
			lyingBatch(1, 0, []byte{22, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0}), 64 << 20,
		},
		{"a bomb", lyingBatch(1, 4, bomb.Bytes()), 3 << 30},
	} {
		t.Run(lie.name, func(t *testing.T) {
			c := cluster(t, kfake.SeedTopics(1, "t", "t.DLT"))
			told := 0
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				if told++; told > 1 {
					stop()
				}
				asked := req.(*kmsg.FetchRequest)
				res := asked.ResponseKind().(*kmsg.FetchResponse)
				topic := kmsg.NewFetchResponseTopic()
				topic.Topic = "t"
				part := kmsg.NewFetchResponseTopicPartition()
				part.HighWatermark, part.LastStableOffset, part.RecordBatches = 1, 1, lie.batch
				topic.Partitions = append(topic.Partitions, part)
				res.Topics = append(res.Topics, topic)
				return res, nil, true
			})
			g, err := consumer.New(consumer.Options{
				Brokers: c.ListenAddrs(), Group: "g", Topics: []string{"t"},
				Dial: Guard(wire.Cluster{Brokers: c.ListenAddrs()}),
			}, func(context.Context, consumer.Message) error { return nil })
			require.NoError(t, err)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			require.NoError(t, g.Run(ctx))
			runtime.ReadMemStats(&after)
			require.Greater(t, told, 1, "the consumer asks again")
			require.Less(t, after.TotalAlloc-before.TotalAlloc, lie.most)
		})
	}
}

// TestLiesOfAnAssignment: kafka-go would make a map for as many topics as a member's assignment says it has.
func TestLiesOfAnAssignment(t *testing.T) {
	honest := []byte{0, 0, 0, 0, 0, 18, 0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0}
	honest = honest[:6+17]
	binary.BigEndian.PutUint32(honest[2:], 17)
	require.NoError(t, judgeAssignment(honest))
	require.NoError(t, judgeAssignment([]byte{0, 27, 0, 0, 0, 0}), "an error, and nothing is assigned")
	for _, n := range []int32{math.MaxInt32, 3, -1} {
		lie := bytes.Clone(honest)
		binary.BigEndian.PutUint32(lie[8:], uint32(n))
		require.Error(t, judgeAssignment(lie), "%d topics", n)
	}
}

// exchanged sends a request by three writes over a guarded connection, and returns the bytes that are handed over.
func exchanged(t *testing.T, key protocol.ApiKey, version int16, answer []byte) ([]byte, error) {
	t.Helper()
	ours, theirs := net.Pipe()
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	g := &guarded{Conn: ours, asked: map[int32]asked{}}
	request := []byte{0, 0, 0, 12, 0, byte(key), 0, byte(version), 0, 0, 0, 7, 0, 2, 'm', 'e'}
	go func() {
		got := make([]byte, len(request))
		for n := 0; n < len(got); {
			read, err := theirs.Read(got[n:])
			if err != nil {
				return
			}
			n += read
		}
		_, _ = theirs.Write(answer)
		_ = theirs.Close()
	}()
	for _, piece := range [][]byte{request[:3], request[3:9], request[9:]} {
		_, err := g.Write(piece)
		require.NoError(t, err)
	}
	var got []byte
	for {
		p := make([]byte, 5)
		n, err := g.Read(p)
		if got = append(got, p[:n]...); err != nil {
			return got, err
		}
	}
}

// TestGuard: an answer comes whole or not at all, and after one that is refused comes nothing.
func TestGuard(t *testing.T) {
	heartbeat := []byte{0, 0, 0, 6, 0, 0, 0, 7, 0, 0}
	got, err := exchanged(t, protocol.Heartbeat, 0, heartbeat)
	require.Equal(t, heartbeat, got)
	require.ErrorContains(t, err, "EOF")

	for name, lie := range map[string][]byte{
		"answers nothing that was asked":  slices.Replace(bytes.Clone(heartbeat), 7, 8, 8),
		"is larger than an answer may be": slices.Replace(bytes.Clone(heartbeat), 0, 1, 0x7f),
		"has a negative length":           slices.Replace(bytes.Clone(heartbeat), 0, 1, 0xff),
		"is cut off":                      heartbeat[:9],
		"ends within a field":             {0, 0, 0, 5, 0, 0, 0, 7, 0},
	} {
		got, err := exchanged(t, protocol.Heartbeat, 0, lie)
		require.Error(t, err, name)
		require.Empty(t, got, name)
	}
	// Metadata v1: brokers, an array, of 2^31-1
	got, err = exchanged(t, protocol.Metadata, 1, []byte{0, 0, 0, 8, 0, 0, 0, 7, 0x7f, 0xff, 0xff, 0xff})
	require.ErrorContains(t, err, "malformed Metadata answer")
	require.Empty(t, got)
	// 63 MiB without records
	got, err = exchanged(t, protocol.Metadata, 1, []byte{3, 0xf0, 0, 0, 0, 0, 0, 7, 0, 0})
	require.ErrorContains(t, err, "Metadata answer of ")
	require.Empty(t, got)
	// a version that kafka-go does not decode is its asker's to bound
	got, _ = exchanged(t, protocol.Metadata, 10, []byte{0, 0, 0, 8, 0, 0, 0, 7, 0x7f, 0xff, 0xff, 0xff})
	require.Len(t, got, 12)
}
