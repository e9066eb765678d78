//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
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
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

// once is the verdict where nothing may come twice.
func (r *rig) once() {
	r.Helper()
	require.Zero(r, r.verdict().Duplicates)
}

// Crashes of the connector under load: a read_committed consumer sees each event once, in order.
func TestExactlyOnceKilled(t *testing.T) {
	t.Parallel()
	exactlyOnceKilled(t, surroundings{}, soak(20, 6))
}

func exactlyOnceKilled(t *testing.T, s surroundings, times int) {
	s.exactlyOnce = true
	r := newRig(t, s)
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{Prepared: true})
	for range times {
		r.pause(50*time.Millisecond, 1500*time.Millisecond)
		p.Kill()
		p = r.launch()
	}
	r.Logf("written: %+v", writers.Stop())
	r.once()
}

// Postgres crashes, and the connector with it: before PostgreSQL 17 the slot falls back far behind what is in Kafka.
func TestExactlyOncePostgresCrashes(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, postgres.Options{})
	r := newRig(t, surroundings{db: db, exactlyOnce: true})
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{Prepared: true})
	for i := range soak(5, 2) {
		r.pause(1500*time.Millisecond, 2500*time.Millisecond)
		db.Kill()
		if i%2 == 1 {
			p.Kill()
			p = r.launch()
		}
		r.pause(0, time.Second)
		require.NoError(t, db.Start(r.within(patience)))
	}
	written(t, writers, 100)
	r.Logf("written: %+v", writers.Stop())
	require.NoError(t, p.Ready(r.within(patience)))
	r.once()
}

// An instance freezes with a transaction to commit, a second one gets the slot, the first awakes: it is fenced, and
// waits for the slot.
func TestExactlyOnceFrozenZombie(t *testing.T) {
	r := newRig(t, surroundings{exactlyOnce: true})
	_, broker := sharedKafka(t)
	first := r.start()
	writers := r.oracle.StartWriters(oracle.Load{})
	second := r.launch()
	awaitNotReady(t, second, patience, "the slot is held by")
	written(t, writers, 200)
	// Its records are appended, and it has not heard of it: whatever it does when it awakes, this transaction is open
	// and its own.
	hold := broker.HoldProduceResponse()
	require.NoError(t, hold.Wait(r.within(patience)))
	require.NoError(t, first.Signal(syscall.SIGSTOP))
	hold.Release()
	conn := connect(t, r.db.DSN)
	_, err := conn.Exec(t.Context(),
		`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1 AND active`, r.db.Slot)
	require.NoError(t, err)
	require.NoError(t, second.Ready(r.within(patience)))
	r.awaitPublished(second, 200)
	require.NoError(t, first.Signal(syscall.SIGCONT))
	require.Eventually(t, func() bool {
		_, why := first.IsReady()
		return strings.Contains(why, "the slot is held by")
	}, patience, 50*time.Millisecond)
	// It hears of the slot from Postgres and of its successor from Kafka, in either order.
	until(t, patience, 50*time.Millisecond, func() (bool, string) {
		log := first.Log()
		return strings.Contains(log, "another instance has taken over") && strings.Contains(log, "holds the slot"),
			"it says in the log why it gives up"
	})
	r.Logf("the zombie: %s", first.LogTail(1))
	written(t, writers, 200)
	r.Logf("written: %+v", writers.Stop())
	require.True(t, second.Running())
	r.once()
}

// Kafka is killed under the transactions, with its only broker.
func TestExactlyOnceKafkaKilled(t *testing.T) {
	r := newRig(t, surroundings{exactlyOnce: true})
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{Prepared: true})
	for range soak(2, 1) {
		r.pause(1500*time.Millisecond, 2500*time.Millisecond)
		r.kafka.Brokers[0].Kill()
		require.NoError(t, r.kafka.Brokers[0].Start(r.within(patience)))
	}
	written(t, writers, 200)
	r.Logf("written: %+v", writers.Stop())
	require.NoError(t, p.Ready(r.within(patience)))
	r.once()
}

// One transaction a hundred times the window, then SIGTERM: it is committed in parts, and after the stop no transaction
// is open.
func TestExactlyOnceTransactionLargerThanWindow(t *testing.T) {
	t.Parallel()
	r, kind, topic := plainRig(t, testkit.Postgres(t))
	r.env["CDC_OUTBOX_DELIVERY"], r.env["CDC_OUTBOX_WINDOW_RECORDS"] = "exactly_once", "500"
	p := r.start()
	began := time.Now()
	r.insert(kind, 50_000)
	r.awaitPublished(p, 50_000)
	t.Logf("50,000 rows through a window of 500 in %v", time.Since(began))
	r.insert(kind, 100)
	code, err := p.Stop(patience)
	require.NoError(t, err)
	require.Zero(t, code, p.LogTail(5))
	r.start()
	r.awaitConfirmed()
	client, err := kafkaclient.New(r.kafka.Addrs(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(t, err)
	defer client.Close()
	records, err := client.Read(r.within(patience), topic)
	require.NoError(t, err)
	require.Len(t, records, 50_100)
}

// awaitConfirmed waits until the slot has passed everything that was committed before. An empty window says less: it is
// empty as well before the first row is read.
func (r *rig) awaitConfirmed() {
	r.Helper()
	conn, err := r.db.Connect(r.Context(), r.db.Name)
	require.NoError(r, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var end string
	require.NoError(r, conn.QueryRow(r.Context(), `SELECT pg_current_wal_flush_lsn()::text`).Scan(&end))
	require.Eventually(r, func() bool {
		passed := false
		err := conn.QueryRow(r.Context(),
			`SELECT confirmed_flush_lsn >= $1::pg_lsn FROM pg_replication_slots WHERE slot_name = $2`,
			end, r.db.Slot).Scan(&passed)
		return err == nil && passed
	}, 2*time.Minute, 50*time.Millisecond, "the slot passes %s", end)
}

// awaitPublished waits until the connector says that n rows are acknowledged.
func (r *rig) awaitPublished(p *process.Process, n int) {
	r.Helper()
	require.Eventually(r, func() bool {
		st, err := p.Status()
		if err != nil {
			return false
		}
		published, _ := st["counts"].(map[string]any)["published"].(float64)
		return int(published) >= n
	}, 2*time.Minute, 5*time.Millisecond, "%d rows published", n)
}

// From the commit in Postgres to where a read_committed consumer sees the event, at 500 transactions a second. Without
// soak the median of the 99th percentiles of short windows counts: a pause of a busy machine decides it in one of them.
func TestExactlyOnceLatency(t *testing.T) {
	r, kind, topic := plainRig(t, testkit.Postgres(t))
	r.env["CDC_OUTBOX_DELIVERY"] = "exactly_once"
	r.start()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(r.kafka.Addrs()...), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond), kgo.FetchMinBytes(1))
	require.NoError(t, err)
	defer consumer.Close()

	const warmUp = 2000 // a broker that has just started compiles its transactions' code first
	const n = 6000
	var mu sync.Mutex
	committed := map[string]time.Time{}
	go func() {
		conn := connect(t, r.db.DSN)
		began := time.Now()
		for i := range n {
			time.Sleep(time.Until(began.Add(time.Duration(i) * 2 * time.Millisecond))) //waits:ok the pace of the load
			key := fmt.Sprint(i)
			if _, err := conn.Exec(t.Context(), "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, "+
				"payload) VALUES ($1, $2, 'happened', '{}')", kind, key); err != nil {
				t.Errorf("insert: %v", err)
				return
			}
			mu.Lock()
			committed[key] = time.Now()
			mu.Unlock()
		}
	}()
	var took []time.Duration
	ctx := r.within(2 * patience)
	for len(took) < n {
		fetches := consumer.PollFetches(ctx)
		require.NoError(t, ctx.Err())
		now := time.Now()
		fetches.EachRecord(func(rec *kgo.Record) {
			mu.Lock()
			at, ok := committed[string(rec.Key)]
			mu.Unlock()
			if !ok {
				at = now
			}
			took = append(took, now.Sub(at))
		})
	}
	took = took[warmUp:]
	var windows []time.Duration
	for window := range slices.Chunk(took, 400) {
		window = slices.Sorted(slices.Values(window))
		windows = append(windows, window[len(window)*99/100])
	}
	slices.Sort(windows)
	slices.Sort(took)
	p99, typical := took[len(took)*99/100], windows[len(windows)/2]
	t.Logf("commit to visible: p50 %v, p99 %v, most %v; p99 of windows %v", took[len(took)/2], p99, took[len(took)-1],
		windows)
	require.Less(t, soak(p99, typical), soak(250*time.Millisecond, patience))
}

// Kafka aborts a transaction that stayed open for too long and refuses its epoch as if another producer had fenced it.
// The session ends, and the position that the next one begins with does not cover the transaction.
func TestExactlyOnceTransactionTimesOut(t *testing.T) {
	t.Parallel()
	c, _ := sharedKafka(t)
	topic := testkit.Name(t) + ".events"
	require.NoError(t, c.Create(within(t, patience), kafkaclient.Topic{Name: topic, Partitions: 3}))
	line := &frozenLine{conns: map[net.Conn]bool{}}
	acked := make(chan int, 1000)
	p, err := producer.New(producer.Config{
		Cluster:      wire.Cluster{Brokers: c.Addrs(), RequestTimeout: 2 * time.Second, Dial: line.dial},
		Callbacks:    sink.Callbacks{Acked: func(d sink.Delivery) { acked <- len(d.Tickets) }},
		Transactions: &producer.Transactions{Instance: "me", Timeout: 3 * time.Second},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	_, _, err = p.Begin(within(t, patience), sink.Owner{ID: topic, SystemID: "1"})
	require.NoError(t, err)
	send := func(from, to int) {
		for i := from; i < to; i++ {
			rec := router.Record{Topic: topic, Partition: -1, Key: fmt.Append(nil, "k", i%5), Value: fmt.Append(nil, i)}
			require.NoError(t, p.ProduceAt(t.Context(), &rec, uint64(i+1), sink.Position{
				Timeline: 1, Position: offsets.Position{Commit: offsets.LSN(i + 1)},
			}))
		}
		p.Flush()
	}
	send(0, 50)
	p.Mark()
	require.NoError(t, p.Drain(within(t, patience)))
	send(50, 100) // no mark: it stays open
	partitions := map[int32]bool{}
	until(t, patience, 20*time.Millisecond, func() (bool, string) {
		have, err := c.Read(within(t, patience), topic)
		require.NoError(t, err)
		for _, rec := range have {
			partitions[rec.Partition] = true
		}
		return len(have) >= 100, fmt.Sprintf("the broker has %d records", len(have))
	})
	line.freeze(true)
	markers := 2 * len(partitions) // of the first transaction's commit, and of this one's abort
	require.NoError(t, c.Await(within(t, patience), int64(100+markers), topic))
	line.freeze(false)
	p.Mark()
	require.ErrorIs(t, p.Drain(within(t, patience)), sink.ErrSessionOver)
	require.Equal(t, 50, p.Abandon().Records)
	stored, found, err := p.Begin(within(t, patience), sink.Owner{ID: topic, SystemID: "1"})
	require.NoError(t, err)
	require.True(t, found)
	require.EqualValues(t, 50, stored.Commit)
	send(50, 100)
	p.Mark()
	send(100, 150)
	p.Mark()
	require.NoError(t, p.Drain(within(t, patience)))
	stop()
	require.NoError(t, <-ended)

	client, err := kafkaclient.New(c.Addrs(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(t, err)
	defer client.Close()
	seen := map[string][]string{}
	records, err := client.Read(within(t, patience), topic)
	require.NoError(t, err)
	for _, rec := range records {
		seen[string(rec.Key)] = append(seen[string(rec.Key)], string(rec.Value))
	}
	for k := range 5 {
		var want []string
		for i := k; i < 150; i += 5 {
			want = append(want, fmt.Sprint(i))
		}
		require.Equal(t, want, seen[fmt.Sprint("k", k)])
	}
	all, err := c.Read(within(t, patience), topic)
	require.NoError(t, err)
	require.Greater(t, len(all), 150, "a transaction was aborted")
}

// frozenLine refuses connections and breaks those there are.
type frozenLine struct {
	mu     sync.Mutex
	frozen bool
	conns  map[net.Conn]bool
}

func (l *frozenLine) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen {
		return nil, syscall.ECONNREFUSED
	}
	nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err == nil {
		l.conns[nc] = true
	}
	return nc, err
}

func (l *frozenLine) freeze(is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = is
	for nc := range l.conns {
		_ = nc.Close()
	}
	clear(l.conns)
}
