package kafka

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
)

// testPatience is how long a test waits for what should come.
const (
	testPatience = 30 * time.Second
	testTick     = time.Millisecond
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = flag.Set("test.parallel", "8") // the tests wait, for back-offs above all
	}
	leak.VerifyTestMain(m)
}

// quickPace makes retries quick enough for tests.
func quickPace() pace {
	return pace{
		backoffMin:  2 * time.Millisecond,
		backoffMax:  50 * time.Millisecond,
		slow:        60 * time.Millisecond,
		topicLookup: 20 * time.Millisecond,
		probeAfter:  time.Minute,
		moveGrace:   50 * time.Millisecond,
		verifying:   200 * time.Millisecond,
		slowAnswer:  2 * time.Second, // a busy machine is not a broker in trouble
		refused:     time.Second,
	}
}

// fewer is how many of n a unit test makes do with.
func fewer(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

func newCluster(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.ListenFn(listenInMemory)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// rig is a running producer and what it was given and acknowledged.
type rig struct {
	t       testing.TB
	cluster *kfake.Cluster
	*Producer
	ended chan error
	dial  *faultDial // where the test has one
	stop  context.CancelFunc

	mu     sync.Mutex
	acked  map[uint64]int // by ticket
	order  map[string][]uint64
	bytes  int64
	ticket uint64
	sent   map[string][]string // by topic: values in order of Produce
	given  []given             // to be produced again, if the session ends
	loses  bool                // the test deletes what was acknowledged
	policy policy              // about records that are refused; nil: there are none
}

func newRig(t testing.TB, c *kfake.Cluster, change ...func(*Config)) *rig {
	t.Helper()
	r := newRigAt(t, c.ListenAddrs(), change...)
	r.cluster = c
	return r
}

func newRigAt(t testing.TB, brokers []string, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{
		t: t, acked: map[uint64]int{}, order: map[string][]uint64{}, sent: map[string][]string{},
		ended: make(chan error, 1),
	}
	cfg := Config{
		Cluster: wire.Cluster{
			Brokers: brokers, RequestTimeout: 20 * time.Second, DialTimeout: 10 * time.Second, Dial: dial,
		},
		Callbacks: sink.Callbacks{Acked: r.onAck},
		Logger:    zap.NewNop(),
		pace:      quickPace(),

		stageFrom: 1, // what the stage does not take goes straight to its batch all the same
	}
	if testing.Verbose() {
		cfg.Logger = zaptest.NewLogger(t, zaptest.Level(zap.DebugLevel))
	}
	for _, f := range change {
		f(&cfg)
	}
	core, logs := observer.New(zap.InfoLevel)
	cfg.Logger = cfg.Logger.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewTee(c,
			core)
	}))
	var err error
	r.Producer, err = New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-r.Producer.stopped
		requireTroublesBegin(t, logs)
		_, lost := r.cfg.Ends.Account("")
		require.Equal(t, r.loses, len(lost) > 0, "%v", lost)
	})
	return r
}

// requireTroublesBegin: each end of a trouble in the log has its beginning.
func requireTroublesBegin(t testing.TB, logs *observer.ObservedLogs) {
	t.Helper()
	begun := map[string]int{}
	for _, line := range logs.All() {
		fields := line.ContextMap()
		what := fmt.Sprint(fields["trouble"], " of ", fields["object"])
		switch line.Message {
		case "waiting for kafka":
			begun[what]++
		case "kafka trouble is over":
			require.Positive(t, begun[what], "%s ends and has not begun", what)
			begun[what]--
		}
	}
}

func (r *rig) onAck(d sink.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	part := d.Topic + "/" + strconv.Itoa(int(d.Partition))
	for _, ticket := range d.Tickets {
		r.acked[ticket]++
		r.order[part] = append(r.order[part], ticket)
	}
	r.bytes += d.Bytes
}

// produce sends one record whose value says its place in its key's sequence.
func (r *rig) produce(topic, key string) {
	r.t.Helper()
	r.ticket++
	value := fmt.Sprintf("%s:%08d", key, r.ticket)
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	require.NoError(r.t, r.give(ctx, &router.Record{
		Topic: topic, Partition: -1, Key: []byte(key), Value: []byte(value),
		Timestamp: 1700000000000,
	}))
	r.sent[topic] = append(r.sent[topic], value)
}

func (r *rig) drain() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := r.Drain(ctx)
	for errors.Is(err, sink.ErrSessionOver) {
		r.readAgain()
		err = r.Drain(ctx)
	}
	if err != nil {
		r.t.Fatalf("drain: %v; trouble: %+v", err, r.Trouble())
	}
}

// policy is a reader's policy about a record that is refused: the record to be produced instead; drop, to leave it out;
// nil, to wait.
type policy func(rec *router.Record, err *sink.RefusedError) (instead *router.Record)

// drop is the answer of a policy.
var drop = &router.Record{}

// waits is a policy.
func waits(*router.Record, *sink.RefusedError) *router.Record { return nil }

// offer produces a record, or its replacement by the policy.
func (r *rig) offer(ctx context.Context, rec *router.Record, ticket uint64) error {
	own := rec
	for {
		err := r.ProduceAt(ctx, rec, ticket, at(ticket))
		var refused *sink.RefusedError
		if !errors.As(err, &refused) || r.policy == nil {
			return err
		}
		switch instead := r.policy(rec, refused); instead {
		case drop:
			r.mu.Lock()
			r.acked[ticket]++
			r.bytes += int64(rec.Size())
			r.mu.Unlock()
			return nil
		case nil:
			time.Sleep(quickPace().slow / 2) //waits:ok the reader looks again, in virtual time
		default:
			r.mu.Lock()
			r.bytes += int64(rec.Size() - instead.Size())
			r.mu.Unlock()
			instead.Tag = own.Tag
			rec = instead
		}
	}
}

// given is a record that was produced.
type given struct {
	rec    router.Record
	ticket uint64
	whole  bool // Mark came after it
}

// give produces the record, and once more with everything that is not acknowledged where the session ends.
func (r *rig) give(ctx context.Context, rec *router.Record) error {
	r.given = append(r.given, given{rec: *rec, ticket: r.ticket})
	err := r.offer(ctx, rec, r.ticket)
	switch {
	case errors.Is(err, sink.ErrSessionOver):
		r.readAgain()
		return nil
	case err != nil:
		r.given = r.given[:len(r.given)-1]
	}
	return err
}

// beginAt begins where there is an owner, and returns the ticket up to which everything is in Kafka.
func (r *rig) beginAt() uint64 {
	if r.own == nil {
		return 0
	}
	s, _ := r.begin()
	return uint64(s.Commit)
}

// readAgain begins another session, as a reader of a log does: it produces again what is not acknowledged.
func (r *rig) readAgain() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	again := func() error {
		dropped := r.Abandon()
		r.mu.Lock()
		r.bytes += dropped.Bytes // the window gets them back
		r.mu.Unlock()
		if err := r.Drain(ctx); err != nil { // until Acked has heard of everything before
			return err
		}
		covered := r.beginAt()
		for i := range r.given {
			g := &r.given[i]
			r.mu.Lock()
			if r.acked[g.ticket] == 0 && g.ticket <= covered {
				r.acked[g.ticket]++ // it is in Kafka already
			}
			known := r.acked[g.ticket] > 0
			r.mu.Unlock()
			if known {
				continue
			}
			if err := r.offer(ctx, &g.rec, g.ticket); err != nil {
				return err
			}
			r.mu.Lock()
			r.bytes -= int64(g.rec.Size()) // and is asked for them again
			r.mu.Unlock()
			if g.whole {
				r.Mark()
			}
		}
		return nil
	}
	err := again()
	for errors.Is(err, sink.ErrSessionOver) {
		err = again()
	}
	require.NoError(r.t, err)
	r.Flush()
}

// check drains and compares log and input: nothing missing, nothing twice, order kept per key, every ticket
// acknowledged once and in order per partition.
func (r *rig) check() {
	r.t.Helper()
	r.drain()
	for topic, values := range r.sent {
		require.Equal(r.t, byKey(values), byKey(r.read(topic)), "topic %s", topic)
	}
	r.checkAcks()
}

func (r *rig) checkAcks() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Len(r.t, r.acked, int(r.ticket))
	for ticket, n := range r.acked {
		require.Equal(r.t, 1, n, "acks of ticket %d", ticket)
	}
	for part, tickets := range r.order {
		for i := 1; i < len(tickets); i++ {
			require.Less(r.t, tickets[i-1], tickets[i], "order of acks in %s", part)
		}
	}
}

// byKey groups "key:number" values by key, in order.
func byKey(values []string) map[string][]string {
	out := map[string][]string{}
	for _, v := range values {
		key, _, _ := strings.Cut(v, ":")
		out[key] = append(out[key], v)
	}
	return out
}

// read returns the values of the topic, in order per partition. It reads up to the high watermarks.
func (r *rig) read(topic string) []string {
	r.t.Helper()
	total := int64(0)
	for _, p := range r.cluster.PartitionInfos(topic) {
		total += p.HighWatermark
	}
	cl, err := newClient(r.cluster.ListenAddrs(), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))
	require.NoError(r.t, err)
	defer cl.Close()
	var out []string
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	for int64(len(out)) < total {
		fetches := cl.PollFetches(ctx)
		require.NoError(r.t, ctx.Err(), "read %d of %d records of %s", len(out), total, topic)
		fetches.EachRecord(func(rec *kgo.Record) { out = append(out, string(rec.Value)) })
	}
	return out
}

// at is the position of a transaction's first row.
func at(commit uint64) sink.Position {
	return sink.Position{Timeline: 1, Position: lsn.Position{Commit: lsn.LSN(commit)}}
}

func adminClient(t testing.TB, c *kfake.Cluster) *kgo.Client {
	t.Helper()
	cl, err := newClient(c.ListenAddrs())
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}
