package publisher

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/decision"
	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/child"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// victimVariable makes this test binary a service that publishes: its DSN and broker.
const victimVariable = "CDC_OUTBOX_TEST_PUBLISHER"

func TestMain(m *testing.M) {
	if spec := os.Getenv(victimVariable); spec != "" {
		dsn, broker, _ := strings.Cut(spec, "\n")
		p, err := New(Options{DSN: dsn, Brokers: []string{broker}})
		if err == nil {
			err = p.Run(context.Background())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testkit.Main(m)
}

// bed is a database and a broker, without a table.
type bed struct {
	*testing.T
	db     *testkit.Database
	kafka  *kafkaclient.Client
	broker string
	pool   *pgxpool.Pool
}

const topic = "order.events"

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{T: t, db: testkit.Postgres(t)}
	broker, err := fakebroker.Start(fakebroker.Options{})
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	b.broker = broker.Addrs()[0]
	b.kafka, err = kafkaclient.New(broker.Addrs())
	require.NoError(t, err)
	t.Cleanup(b.kafka.Close)
	require.NoError(t, b.kafka.Create(t.Context(), kafkaclient.Topic{Name: topic, Partitions: 1}))
	b.pool, err = pgxpool.New(t.Context(), b.db.DSN)
	require.NoError(t, err)
	t.Cleanup(b.pool.Close)
	return b
}

func (b *bed) options() Options {
	return Options{
		DSN: b.db.DSN, Brokers: []string{b.broker}, Logger: slog.New(slog.DiscardHandler),
		Settings: map[string]string{"monitor.interval": "100ms"},
	}
}

// migrate does what a service's migration would.
func (b *bed) migrate() {
	b.Helper()
	p, err := New(b.options())
	require.NoError(b, err)
	sql, err := p.SQL(true)
	require.NoError(b, err)
	b.db.Exec(b, sql)
}

// run starts a publisher and returns what stops it and waits for it.
func (b *bed) run(o Options) (*Publisher, func()) {
	b.Helper()
	p, err := New(o)
	require.NoError(b, err)
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	end := sync.OnceFunc(func() {
		stop()
		require.NoError(b, <-done)
	})
	b.Cleanup(end)
	return p, end
}

// place writes events of one key in a transaction.
func (b *bed) place(key string, numbers ...int) {
	b.Helper()
	require.NoError(b, pgx.BeginFunc(b.Context(), b.pool, func(tx pgx.Tx) error {
		for _, n := range numbers {
			err := outbox.Insert(b.Context(), tx, outbox.Event{
				AggregateType: "order", AggregateID: key, Type: "x", Payload: map[string]int{"n": n},
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

func (b *bed) records(n int64) []*kgo.Record {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	require.NoError(b, b.kafka.Await(ctx, n, topic))
	all, err := b.kafka.Read(ctx, topic)
	require.NoError(b, err)
	return all
}

func (b *bed) await(what string, is func() bool) {
	b.Helper()
	require.Eventually(b, is, time.Minute, 10*time.Millisecond, what)
}

func (b *bed) count(where string) (n int) {
	b.Helper()
	require.NoError(b, b.pool.QueryRow(context.Background(), "SELECT count(*) FROM "+where).Scan(&n))
	return n
}

// marking are the sessions that wait for a lock before they mark.
const marking = `pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%UPDATE%published_at%'
	AND datname = current_database()`

func (b *bed) awaitMarked() {
	b.Helper()
	b.await("marked", func() bool { return b.count("outbox WHERE published_at IS NULL") == 0 })
}

// ordered counts the repeats, and fails where a key's first appearances are not 1, 2, 3, …
func (b *bed) ordered(records []*kgo.Record) (repeats int) {
	b.Helper()
	last := map[string]int{}
	for _, r := range records {
		var v struct{ N int }
		require.NoError(b, json.Unmarshal(r.Value, &v))
		key := string(r.Key)
		if v.N <= last[key] {
			repeats++
			continue
		}
		require.Equal(b, last[key]+1, v.N, "key %s", key)
		last[key] = v.N
	}
	return repeats
}

func TestPublishes(t *testing.T) {
	b := newBed(t)
	b.migrate()
	o := b.options()
	registry := prometheus.NewRegistry()
	labelled := func(name string) prometheus.Registerer {
		return prometheus.WrapRegistererWith(prometheus.Labels{"publisher": name}, registry)
	}
	o.Registerer = labelled("first")
	p, end := b.run(o)
	_, err := New(o)
	require.ErrorContains(t, err, "WrapRegistererWith")
	o.Registerer = labelled("second")
	_, err = New(o)
	require.NoError(t, err)

	b.place("a", 1, 2)
	require.Error(t, pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		require.NoError(t, outbox.Insert(t.Context(), tx, outbox.Event{
			AggregateType: "order", AggregateID: "a", Type: "x", Payload: map[string]int{"n": 99},
		}))
		return fmt.Errorf("rolled back")
	}))
	b.place("a", 3)
	p.Kick()
	require.Zero(t, b.ordered(b.records(3)))
	b.await("ready", func() bool { return p.Ready() == nil })
	require.ErrorIs(t, p.Run(t.Context()), errTwice)

	b.awaitMarked()
	b.await("counted", func() bool { return p.Status().Published == 3 && p.Status().Backlog.Known })
	st := p.Status()
	require.Equal(t, "polling", st.State)
	require.Zero(t, st.InFlight)
	published := func() (n float64) {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "cdc_outbox_events_published_total" {
					n += m.GetCounter().GetValue()
				}
			}
		}
		return n
	}
	b.await("counted as a metric", func() bool { return published() == 3 })
	server := httptest.NewServer(p.Handler())
	defer server.Close()
	for _, path := range []string{"/healthz", "/readyz", "/status", "/metrics"} {
		r, err := http.Get(server.URL + path) //nolint:noctx // of this process
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Equal(t, http.StatusOK, r.StatusCode, path)
	}
	end()
	require.Equal(t, "stopped", p.Status().State)
	p.Kick() // harmless
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families { // of the second one
		for _, m := range f.GetMetric() {
			require.True(t, slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
				return l.GetName() == "publisher" && l.GetValue() == "second"
			}), f.GetName())
		}
	}
}

// What an operator has to fix does not end the service, and is over when it is fixed.
func TestStaysThroughErrors(t *testing.T) {
	b := newBed(t)
	var log bytes.Buffer
	var mu sync.Mutex
	o := b.options()
	o.Logger = slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	}), nil))
	p, end := b.run(o)
	b.await("it says why", func() bool {
		err := p.Ready()
		return err != nil && strings.HasPrefix(err.Error(), "waits for an operator: ")
	})
	st := p.Status()
	require.Equal(t, "needs_operator", st.State)
	require.NotEmpty(t, st.Commands)
	b.migrate()
	b.place("a", 1)
	require.Len(t, b.records(1), 1)
	b.await("ready", func() bool { return p.Ready() == nil })
	end()
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 1, strings.Count(log.String(), "stopped by an error"), log.String())
	require.Contains(t, log.String(), "the cause no longer exists")
}

// An error that comes while it stops is logged, and is not why the service ends.
//
// Bug (polling): `Publisher.Run` returned the error of an attempt that failed while it was stopping. Cost: a service's
// errgroup failed at each such stop.
func TestStopsThroughErrors(t *testing.T) {
	b := newBed(t)
	b.migrate()
	b.db.Exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
		AS $$ BEGIN RAISE 'no marks' USING ERRCODE = 'insufficient_privilege'; END $$`)
	b.db.Exec(t, `CREATE TRIGGER refuse BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION refuse()`)
	b.place("a", 1)
	lock, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = lock.Rollback(context.Background()) }) // the pool waits for it
	_, err = lock.Exec(t.Context(), "SELECT FROM outbox FOR UPDATE")
	require.NoError(t, err)
	var log bytes.Buffer
	o := b.options()
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	p, err := New(o)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	b.await("it marks", func() bool { return b.count(marking) > 0 })
	stop()
	require.NoError(t, lock.Rollback(t.Context()))
	require.NoError(t, <-ended)
	require.Contains(t, log.String(), "no marks")
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// Operators pause and resume it as they do a process.
func TestPaused(t *testing.T) {
	b := newBed(t)
	b.migrate()
	p, _ := b.run(b.options())
	b.place("a", 1)
	b.records(1)
	_, err := wiring.Decisions(p.config).Switch(t.Context(), decision.Pause, "maintenance")
	require.NoError(t, err)
	b.await("paused", func() bool { return p.Status().State == "paused" })
	b.place("a", 2)
	p.Kick()
	require.Never(t, func() bool { return p.Status().Published > 1 }, 300*time.Millisecond, 50*time.Millisecond)
	_, err = wiring.Decisions(p.config).Switch(t.Context(), decision.Resume, "")
	require.NoError(t, err)
	require.Zero(t, b.ordered(b.records(2)))
}

// Several services share a table. What one has in flight when it stops is marked, so that nothing is repeated.
func TestSeveralShareATable(t *testing.T) {
	const keys, rounds = 40, 25
	b := newBed(t)
	b.migrate()
	_, end := b.run(b.options())
	b.run(b.options())
	for n := range rounds {
		for k := range keys {
			b.place(fmt.Sprint(k), n+1)
		}
		switch n {
		case rounds / 3:
			end() // in the middle of a batch, or not
		case rounds / 2:
			b.run(b.options())
		}
	}
	require.Zero(t, b.ordered(b.records(keys*rounds)))
	b.awaitMarked()
	require.Len(t, b.records(keys*rounds), keys*rounds)
}

// A service is killed after Kafka has acknowledged and before the rows are marked: a session of the test holds them
// locked, so the mark waits. The next one publishes exactly them again.
func TestKilledBetweenAcknowledgementAndMark(t *testing.T) {
	const locked = 30
	var numbers []int
	for n := range locked {
		numbers = append(numbers, n+1)
	}
	b := newBed(t)
	b.migrate()
	b.place("k", numbers...)
	lock, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = lock.Rollback(context.Background()) }) // the pool waits for it
	_, err = lock.Exec(t.Context(), "SELECT FROM outbox FOR UPDATE")
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0]) //nolint:noctx // it is killed
	cmd.Env = append(os.Environ(), victimVariable+"="+b.db.DSN+"\n"+b.broker)
	victim, err := child.Start(cmd, syscall.SIGKILL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = victim.Signal(syscall.SIGKILL); <-victim.Done() })
	b.records(locked)
	b.await("it marks", func() bool { return b.count(marking) > 0 })
	require.NoError(t, victim.Signal(syscall.SIGKILL))
	<-victim.Done()
	b.await("its session has ended", func() bool { return b.count(marking) == 0 })
	require.NoError(t, lock.Rollback(t.Context()))
	require.Equal(t, locked, b.count("outbox WHERE published_at IS NULL"))
	b.run(b.options())
	b.place("k", locked+1)
	b.awaitMarked()
	require.Equal(t, locked, b.ordered(b.records(2*locked+1)))
	require.Len(t, b.records(2*locked+1), 2*locked+1)
}
