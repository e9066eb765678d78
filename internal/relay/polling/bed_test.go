package polling

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/router"
	preset "github.com/cdc-outbox/cdc-outbox/router/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var theTable = identifier.Table{Schema: "public", Name: "outbox"}

func columns() Columns {
	return Columns{Key: "aggregate_id", Sequence: "seq", Published: "published_at", Timestamp: "created_at"}
}

// bed is an outbox in a database of a test's own, ready to be polled. Its tests run in parallel: most of them wait.
type bed struct {
	*testing.T
	db   *testkit.Database
	conn *pgx.Conn
}

func newBed(t *testing.T, version ...string) *bed {
	t.Helper()
	t.Parallel()
	db := testkit.Postgres(t, version...)
	ddl, err := outbox.Schema(outbox.Options{Schema: "public"})
	require.NoError(t, err)
	_, err = Apply(t.Context(), db.DSN, Setup{
		Tables: []identifier.Table{theTable}, Columns: columns(), TableDDL: ddl,
		Notify: true,
	})
	require.NoError(t, err)
	b := &bed{T: t, db: db, conn: connect(t, db)}
	return b
}

func connect(t *testing.T, db *testkit.Database) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), db.DSN)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// insert writes rows whose payload counts per key.
func (b *bed) insert(q interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}, key string, numbers ...int,
) {
	b.Helper()
	for _, n := range numbers {
		_, err := q.Exec(b.Context(), `INSERT INTO outbox (aggregate_type, aggregate_id, event_type,
			payload) VALUES ('order', $1, 'x', jsonb_build_object('n', $2::int))`, key, n)
		require.NoError(b, err)
	}
}

// fill writes rows for many keys, numbered per key from 1.
func (b *bed) fill(rows, keys int) {
	b.Helper()
	b.db.Exec(b, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		SELECT 'order', (g %% %[2]d)::text, 'x', jsonb_build_object('n', g / %[2]d + 1)
		FROM generate_series(0, %[1]d - 1) g ORDER BY g`, rows, keys))
}

// fillMore goes on counting where the table ends.
func (b *bed) fillMore(rows, keys int) {
	b.Helper()
	b.db.Exec(b, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		SELECT 'order', (g %% %[2]d)::text, 'x', jsonb_build_object('n', (SELECT count(*)
		FROM outbox) / %[2]d + g / %[2]d + 1) FROM generate_series(0, %[1]d - 1) g ORDER BY g`, rows, keys))
}

func (b *bed) unpublished() (n int) {
	b.Helper()
	require.NoError(b, b.conn.QueryRow(b.Context(), "SELECT count(*) FROM outbox WHERE published_at IS NULL").Scan(&n))
	return n
}

// sent is a record as the fake producer has it.
type sent struct {
	topic, key, value, id string
	ticket                uint64
	size                  int
	headers               []string
}

// fakeProducer keeps what it is given. It acknowledges at once unless it is held.
type fakeProducer struct {
	sink.Producer

	acked func(sink.Delivery)

	mu      sync.Mutex
	all     []sent
	pending []sent
	held    bool
	blocked bool // as at a missing topic
	grown   []sink.Growth
	refuse  func(*router.Record) error
	more    chan struct{}

	refreshed atomic.Int32
}

func (f *fakeProducer) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.more:
			f.deliver()
		}
	}
}

func (f *fakeProducer) deliver() {
	f.mu.Lock()
	var now []sent
	if !f.held {
		now, f.pending = f.pending, nil
	}
	f.mu.Unlock()
	for _, s := range now {
		f.acked(sink.Delivery{Topic: s.topic, Tickets: []uint64{s.ticket}, Bytes: int64(s.size)})
	}
}

func (f *fakeProducer) ProduceAt(ctx context.Context, rec *router.Record, ticket uint64, _ sink.Position) error {
	f.mu.Lock()
	blocked := f.blocked
	f.mu.Unlock()
	if blocked {
		<-ctx.Done()
		return ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		if err := f.refuse(rec); err != nil {
			return err
		}
	}
	s := sent{
		topic: rec.Topic, key: string(rec.Key), value: string(rec.Value), id: deadletter.EventID(rec.Headers),
		ticket: ticket, size: rec.Size(),
	}
	for _, h := range rec.Headers {
		s.headers = append(s.headers, h.Key)
	}
	f.all = append(f.all, s)
	f.pending = append(f.pending, s)
	return nil
}

func (f *fakeProducer) Flush() {
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// Abandon gives up what is pending, and keeps it from being acknowledged.
func (f *fakeProducer) Abandon() (dropped sink.Dropped) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.pending {
		dropped.Records++
		dropped.Bytes += int64(s.size)
	}
	f.pending = nil
	return dropped
}

func (f *fakeProducer) Drain(context.Context) error { return nil }

func (f *fakeProducer) Refresh() { f.refreshed.Add(1) }

func (f *fakeProducer) Grown() []sink.Growth { return f.grown }

func (f *fakeProducer) Trouble() []sink.Trouble { return nil }

func (f *fakeProducer) hold(on bool) {
	f.mu.Lock()
	f.held = on
	f.mu.Unlock()
	f.Flush()
}

func (f *fakeProducer) block(on bool) {
	f.mu.Lock()
	f.blocked = on
	f.mu.Unlock()
}

func (f *fakeProducer) sent() []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]sent(nil), f.all...)
}

func (f *fakeProducer) refusing(refuse func(*router.Record) error) {
	f.mu.Lock()
	f.refuse = refuse
	f.mu.Unlock()
}

// relaying is a relay at work.
type relaying struct {
	*bed
	r    *Relay
	fake *fakeProducer
	logs *observer.ObservedLogs
	stop context.CancelFunc
	end  chan error
}

// start runs a relay with a producer that keeps what it gets.
func (b *bed) start(change ...func(*Config)) *relaying {
	b.Helper()
	x := b.prepare(change...)
	x.run()
	return x
}

// prepare is start without running it.
func (b *bed) prepare(change ...func(*Config)) *relaying {
	b.Helper()
	core, logs := observer.New(zap.DebugLevel)
	cfg := Config{
		DSN: func() (string, error) { return b.db.DSN, nil }, Tables: []identifier.Table{theTable}, Columns: columns(),
		NewRouter: func() (router.Router, error) {
			return preset.New(preset.Config{Columns: preset.DefaultColumns(), Topic: preset.DefaultTopic})
		},
		DeadLetters: deadletter.Builder{Topic: "letters", Columns: deadletter.Columns{
			ID: "id", Key: "aggregate_id",
			Type: "event_type", Payload: "payload",
		}},
		Metrics: telemetry.NewMetrics(prometheus.NewRegistry()), Logger: zap.New(core),
		LookEvery: 50 * time.Millisecond, Interval: 20 * time.Millisecond,
	}
	for _, f := range change {
		f(&cfg)
	}
	fake := &fakeProducer{more: make(chan struct{}, 1)}
	cfg.Sink = func(c sink.Callbacks) (sink.Producer, error) { fake.acked = c.Acked; return fake, nil }
	r, err := New(cfg)
	require.NoError(b, err)
	r.again = 100 * time.Millisecond // a row that was corrected is soon found
	return &relaying{bed: b, r: r, fake: fake, logs: logs}
}

func (x *relaying) run() {
	b := x.bed
	ctx, stop := context.WithCancel(b.Context())
	x.stop, x.end = stop, make(chan error, 1)
	go func() { x.end <- x.r.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if x.end != nil {
			<-x.end
		}
	})
}

// finish stops the relay and returns what Run did.
func (x *relaying) finish() error {
	x.Helper()
	x.stop()
	select {
	case err := <-x.end:
		x.end = nil
		return err
	case <-time.After(time.Minute):
		require.Fail(x, "it did not stop")
		return nil
	}
}

func (x *relaying) await(what string, so func() bool) {
	x.Helper()
	require.Eventually(x, so, 90*time.Second, 5*time.Millisecond, what)
}

func (x *relaying) awaitPublished() {
	x.Helper()
	x.await("everything is marked", func() bool { return x.unpublished() == 0 })
}

// ordered counts repeats and fails where a key's first appearances are not 1, 2, 3, …
func ordered(t *testing.T, all []sent) (repeats int) {
	t.Helper()
	next := map[string]int{}
	for _, s := range all {
		var n int
		_, err := fmt.Sscanf(s.value, `{"n": %d}`, &n)
		require.NoError(t, err, s.value)
		switch {
		case n == next[s.key]+1:
			next[s.key] = n
		case n <= next[s.key]:
			repeats++
		default:
			require.Fail(t, "out of order", "key %s: %d after %d", s.key, n, next[s.key])
		}
	}
	return repeats
}

func text(n int) string { return strconv.Itoa(n) }
