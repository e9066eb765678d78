//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	producer "github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// The producer alone against real brokers. Its log must equal its input: nothing missing, nothing twice, order kept.

const producerTopic = "orders.events"

// load is a producer under load, and what it was given.
type load struct {
	t       *testing.T
	cluster *kafka.Cluster
	p       *producer.Producer
	window  chan struct{} // one slot for each record that may be unacknowledged

	mu    sync.Mutex
	acked map[uint64]int
	sent  []string

	deleted map[uint64]bool // the tickets of records that went with a deleted topic
}

func startCluster(t *testing.T, partitions int32) *kafka.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := kafka.Start(ctx, kafka.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.NoError(t, c.Create(ctx, kafkaclient.Topic{Name: producerTopic, Partitions: partitions}))
	return c
}

func newLoad(t *testing.T, c *kafka.Cluster, change ...func(*producer.Config)) *load {
	t.Helper()
	l := &load{t: t, cluster: c, acked: map[uint64]int{}, window: make(chan struct{}, 3000)}
	cfg := producer.Config{
		Cluster:         wire.Cluster{Brokers: c.Addrs(), RequestTimeout: 5 * time.Second},
		Callbacks:       sink.Callbacks{Acked: l.onAck},
		MaxBatchBytes:   8 << 10, // small, so that five are in flight
		MaxRequestBytes: 16 << 10,
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	l.p, err = producer.New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	return l
}

func (l *load) onAck(d sink.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ticket := range d.Tickets {
		l.acked[ticket]++
		<-l.window
	}
}

// run produces until done is closed, and n records at least.
func (l *load) run(n int, done <-chan struct{}) {
	for i := 0; ; i++ {
		if i >= n {
			select {
			case <-done:
				l.p.Flush()
				return
			default:
			}
		}
		if len(l.window) == cap(l.window) {
			l.p.Flush()
		}
		l.window <- struct{}{}
		key := fmt.Sprint("k", i%50)
		value := fmt.Sprintf("%s:%09d:%s", key, len(l.sent), strings.Repeat("x", 200))
		rec := router.Record{
			Topic: producerTopic, Partition: -1, Key: []byte(key), Value: []byte(value),
			Timestamp: time.Now().UnixMilli(),
		}
		if !assertNoError(l.t, l.p.Produce(l.t.Context(), &rec, uint64(len(l.sent)))) {
			return
		}
		l.sent = append(l.sent, value)
		if i%20 == 0 {
			time.Sleep(time.Millisecond) //waits:ok the pace of the load
		}
	}
}

func assertNoError(t *testing.T, err error) bool {
	if err != nil {
		t.Errorf("produce: %v", err)
	}
	return err == nil
}

// during produces while f does its harm, when records are acknowledged.
func (l *load) during(f func(ctx context.Context)) {
	l.t.Helper()
	l.produceBeside(func(ctx context.Context) {
		l.awaitAcks(500)
		f(ctx)
	})
}

// produceBeside produces until f has ended, and waits for the rest.
func (l *load) produceBeside(f func(ctx context.Context)) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 3*time.Minute)
	defer cancel()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); l.run(2000, done) }()
	f(ctx)
	close(done)
	<-ended
	if err := l.p.Drain(ctx); err != nil {
		l.t.Fatalf("drain: %v; trouble: %+v", err, l.p.Trouble())
	}
}

// awaitAcks waits until n records more are acknowledged.
func (l *load) awaitAcks(n int) {
	l.t.Helper()
	acks := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.acked)
	}
	due := acks() + n
	until(l.t, patience, 10*time.Millisecond, func() (bool, string) {
		return acks() >= due, fmt.Sprintf("%d records are acknowledged, %d should be; trouble: %+v", acks(), due,
			l.p.Trouble())
	})
}

func (l *load) check() {
	l.t.Helper()
	got := map[string][]string{}
	require.NoError(l.t, l.cluster.Each(l.t.Context(), []string{producerTopic}, func(r *kgo.Record) {
		got[string(r.Key)] = append(got[string(r.Key)], string(r.Value[:20]))
	}))
	want := map[string][]string{}
	for ticket, v := range l.sent {
		if l.deleted[uint64(ticket)] {
			continue
		}
		key, _, _ := strings.Cut(v, ":")
		want[key] = append(want[key], v[:20])
	}
	require.NotEmpty(l.t, want)
	for _, key := range slices.Sorted(maps.Keys(want)) {
		require.Equal(l.t, want[key], got[key], "key %s", key)
	}
	require.Len(l.t, l.acked, len(l.sent))
	for ticket, n := range l.acked {
		require.Equal(l.t, 1, n, "ticket %d", ticket)
	}
	require.Eventually(l.t, func() bool { return len(l.p.Trouble()) == 0 }, patience, 10*time.Millisecond,
		"trouble that is over")
	l.t.Logf("%d records", len(l.sent))
}

func TestProducerOverKilledBroker(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	l := newLoad(t, c)
	for range soak(3, 2) {
		l.during(func(ctx context.Context) {
			c.Brokers[0].Kill()
			time.Sleep(300 * time.Millisecond) //waits:ok the fault lasts
			require.NoError(t, c.Brokers[0].Start(ctx))
		})
	}
	l.check()
}

func TestProducerOverBounceAndFreeze(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	const timeout = 2 * time.Second
	l := newLoad(t, c, func(cfg *producer.Config) { cfg.RequestTimeout = timeout })
	l.during(func(ctx context.Context) { require.NoError(t, c.Brokers[0].Bounce(ctx)) })
	l.during(func(context.Context) {
		require.NoError(t, c.Brokers[0].Signal(syscall.SIGSTOP))
		time.Sleep(5 * timeout / 2) //waits:ok the fault lasts beyond the timeout, twice
		require.NoError(t, c.Brokers[0].Signal(syscall.SIGCONT))
	})
	l.check()
}

// TestProducerOverFrozenLeader: the other brokers elect a new leader while the old one holds unanswered requests;
// when it thaws, none of them may land after newer records.
func TestProducerOverFrozenLeader(t *testing.T) {
	t.Parallel()
	c := threeBrokers(t, kafka.Options{})
	require.NoError(t, c.Create(within(t, time.Minute), kafkaclient.Topic{Name: producerTopic, Partitions: 3}))
	l := newLoad(t, c)
	l.during(func(ctx context.Context) {
		leader, err := c.Leader(ctx, producerTopic, 0)
		require.NoError(t, err)
		require.NoError(t, c.Node(leader).Signal(syscall.SIGSTOP))
		time.Sleep(10 * time.Second) //waits:ok the fault lasts
		require.NoError(t, c.Node(leader).Signal(syscall.SIGCONT))
		time.Sleep(2 * time.Second) //waits:ok it reads its sockets, which no answer reports
	})
	l.during(func(ctx context.Context) {
		leader, err := c.Leader(ctx, producerTopic, 0)
		require.NoError(t, err)
		c.Node(leader).Kill()
		time.Sleep(6 * time.Second) //waits:ok the fault lasts
		require.NoError(t, c.Node(leader).Start(ctx))
	})
	l.check()
}

// TestProducerProbes: the first batch of a fresh producer id does not arrive. A broker without state for the id takes
// any first sequence: had a second batch been in transit, it would be written, and the first be refused for good.
func TestProducerProbes(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	d := &losingDial{lose: 2}
	l := newLoad(t, c, func(cfg *producer.Config) { cfg.Dial, cfg.RequestTimeout = d.dial, time.Second })
	l.during(func(context.Context) {})
	require.Equal(t, 0, d.lose)
	l.check()
}

func TestProducerResumesOnRecreatedTopic(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	l := newLoad(t, c)
	l.during(func(context.Context) {})
	l.check()
	require.NoError(t, c.Delete(t.Context(), producerTopic))
	l.sent, l.acked = nil, map[uint64]int{}
	l.produceBeside(func(ctx context.Context) {
		require.Eventually(t, func() bool {
			ts := l.p.Trouble()
			return slices.ContainsFunc(ts, func(x sink.Trouble) bool { return x.Kind == sink.TopicMissing })
		}, patience, 10*time.Millisecond)
		time.Sleep(time.Second) //waits:ok for the answers to requests that were sent before that was found out
		l.deleteAcked()
		require.NoError(t, c.Create(ctx, kafkaclient.Topic{Name: producerTopic, Partitions: 3}))
	})
	l.check()
}

// deleteAcked: what is acknowledged by now went with the topic that was deleted. A broker that has not heard of the
// deletion yet takes records for a moment.
func (l *load) deleteAcked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deleted = map[uint64]bool{}
	for ticket := range l.acked {
		l.deleted[ticket] = true
	}
}
