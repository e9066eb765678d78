//go:build e2e

package kafka

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// lateConn delays what the broker says, so that five requests are in flight.
type lateConn struct{ net.Conn }

func (c lateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(30 * time.Millisecond) //waits:ok the delay of a network
	return n, err
}

func lateDial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return lateConn{nc}, err
}

// What a topic of a real Kafka refuses, and the setting that makes it.
var refusedBy = map[string]struct {
	reason         string
	key, low, high string // the setting: while it refuses, and where it does not
	words          string // of the sentence
	spoil          func(*router.Record)
}{
	"too large": {
		sink.TooLarge, "max.message.bytes", "20000", "1000000", "",
		func(rec *router.Record) { rec.Value = append(rec.Value, noise(30_000)...) },
	},
	"no key": {
		sink.InvalidRecord, "cleanup.policy", "compact", "delete", "Compacted topic cannot accept message without key",
		func(rec *router.Record) { rec.Key = nil },
	},
	"future": {
		sink.InvalidRecord, "message.timestamp.after.max.ms", "3600000", "9000000000000000000",
		"the timestamp of a record",
		func(rec *router.Record) { rec.Timestamp += 7200_000 },
	},
}

// TestRealRefused: one record of 400 that a real Kafka refuses, with batches of twenty before and after it in flight.
// The topic's setting changes while the producer runs, so nothing is known before.
func TestRealRefused(t *testing.T) {
	c := realKafka(t, "dead", 1)
	n := 0
	for mode, change := range modes {
		for _, compression := range []string{"none", "zstd"} {
			for cause, of := range refusedBy {
				if compression != "none" && of.reason != sink.TooLarge {
					continue // sizes are what it changes
				}
				if cause == "future" && kafka.Older("3.6") {
					continue // which has no such limit
				}
				for _, action := range []string{"waited for", "dropped", "replaced"} {
					n++
					topic := fmt.Sprint("t", n)
					t.Run(fmt.Sprintf("%s %s %s %s", mode, compression, cause, action), func(t *testing.T) {
						refusedByKafka(t, c, topic, cause, action, change,
							func(cfg *Config) { cfg.Compression = compression })
					})
				}
			}
		}
	}
}

func refusedByKafka(t *testing.T, c *kafka.Cluster, topic, cause, action string, change ...func(*Config)) {
	of := refusedBy[cause]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	alter := func(value string) {
		_, err := c.Admin().AlterTopicConfigs(ctx,
			[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: of.key, Value: kadm.StringPtr(value)}}, topic)
		require.NoError(t, err)
	}
	require.NoError(t, c.Create(ctx, kafkaclient.Topic{
		Name: topic, Partitions: 1,
		Configs: map[string]string{of.key: of.high},
	}))
	var asked atomic.Int32
	r := newRigAt(t, c.Addrs(), append(change, func(cfg *Config) {
		cfg.MaxBatchBytes, cfg.MaxRequestBytes, cfg.Dial = 19_000, 19_000, lateDial
		cfg.KeepTimestamps = true
	})...).start()
	r.policy = func(_ *router.Record, err *sink.RefusedError) *router.Record {
		asked.Add(1)
		if err.Reason != of.reason || err.Topic != topic {
			t.Errorf("%s in %s", err.Reason, err.Topic)
		}
		if !strings.Contains(err.Sentence, of.words) {
			t.Errorf("words %q", err.Sentence)
		}
		switch action {
		case "dropped":
			return drop
		case "replaced":
			return &router.Record{Topic: "dead", Partition: -1, Key: []byte(topic), Value: []byte("dead")}
		}
		if asked.Load() == 2 {
			alter(of.high)
		}
		return nil
	}
	start := time.Now()
	produce := func(i int) {
		r.ticket++
		rec := &router.Record{
			Topic: topic, Partition: 0, Key: []byte("k"), Value: append(fmt.Appendf(nil, "%04d ", i), noise(900)...),
			Timestamp: start.UnixMilli(),
		}
		if i == 200 {
			of.spoil(rec)
		}
		require.NoError(t, r.give(ctx, rec))
	}
	produce(0)
	r.whole()
	r.drain()
	alter(of.low)
	time.Sleep(500 * time.Millisecond) //waits:ok no answer reports that the log knows its topic's setting

	most := 0
	for i := 1; i <= 400; i++ {
		produce(i)
		most = max(most, r.inFlight())
	}
	r.whole()
	//waits:ok looks until it is so, or the context ends
	for ; most < 5 && asked.Load() == 0 && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		most = max(most, r.inFlight()) // with transactions nothing flies before the partition is added
	}
	r.drain()
	require.Positive(t, asked.Load())
	require.Equal(t, 5, most)

	var want, got []string
	for i := range 401 {
		if i != 200 || action == "waited for" {
			want = append(want, fmt.Sprintf("%04d", i))
		}
	}
	read, err := kafkaclient.New(c.Addrs(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(t, err)
	defer read.Close()
	require.NoError(t, read.Each(ctx, []string{topic}, func(rec *kgo.Record) {
		value, _, _ := strings.Cut(string(rec.Value), " ")
		got = append(got, value)
	}))
	require.Equal(t, want, got)
	dead := 0
	require.NoError(t, read.Each(ctx, []string{"dead"}, func(rec *kgo.Record) {
		if string(rec.Key) == topic {
			dead++
		}
	}))
	require.Equal(t, action == "replaced", dead == 1)
	require.LessOrEqual(t, dead, 1)
	require.Len(t, r.acked, 401)
	for ticket, n := range r.acked {
		require.Equal(t, 1, n, "acks of ticket %d", ticket)
	}
	require.Empty(t, r.Trouble())
}

// TestRealRefusedEarly: the limit that DescribeConfigs returns is the limit that the broker applies, to the byte.
func TestRealRefusedEarly(t *testing.T) {
	c := realKafka(t, "dead", 1)
	for i, compression := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		topic := fmt.Sprint("t", i)
		require.NoError(t, c.Create(t.Context(), kafkaclient.Topic{
			Name: topic, Partitions: 1,
			Configs: map[string]string{"max.message.bytes": "20000"},
		}))
		r := newRigAt(t, c.Addrs(), func(cfg *Config) {
			cfg.Compression = compression
		})
		// The limit is known once the topic has its partitions. What comes before is taken, and refused by the broker.
		r.ticket++
		first := &router.Record{Topic: topic, Partition: -1, Value: noise(100)}
		require.NoError(t, r.Produce(t.Context(), first, r.ticket))
		r.drain()
		taken := 0
		for n := 19_800; n < 20_100; n++ {
			r.ticket++
			err := r.Produce(t.Context(), &router.Record{Topic: topic, Partition: -1, Value: noise(n)}, r.ticket)
			var refused *sink.RefusedError
			if err != nil {
				require.ErrorAs(t, err, &refused)
				r.ticket--
				continue
			}
			taken++
		}
		r.drain()
		require.Positive(t, taken)
		require.Less(t, taken, 300)
	}
}
