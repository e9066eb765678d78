//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// The session is ended every second: the connector goes on where it knows everything to be acknowledged, so nothing is
// repeated either.
func TestPostgresTerminatesSessionEachSecond(t *testing.T) {
	t.Parallel()
	r := newRig(t, surroundings{})
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{})
	ended := 0
	conn := connect(t, r.db.DSN)
	// Streams that do not live for a second let the back-off grow, so on a slow machine it takes longer to end as many.
	for second := 0; second < 12 || ended <= 6 && second < 90; second++ {
		time.Sleep(time.Second) //waits:ok the fault comes each second
		var n int
		require.NoError(t, conn.QueryRow(t.Context(),
			`SELECT count(pg_terminate_backend(active_pid)) FROM pg_replication_slots WHERE slot_name = $1 AND active`,
			r.db.Slot).Scan(&n))
		ended += n
	}
	r.Logf("written: %+v", writers.Stop())
	require.Greater(t, ended, 6, "sessions were ended")
	require.Zero(t, r.verdict().Duplicates)
	require.True(t, p.Running())
}

// A crash and an immediate shutdown of the server while the connector lives. Before PostgreSQL 17 the slot falls back
// then; the connector does not.
func TestPostgresCrashesUnderConnector(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, postgres.Options{})
	r := newRig(t, surroundings{db: db})
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{Prepared: true})
	for _, stop := range []func(){
		db.Kill,
		func() { require.NoError(t, db.Stop(r.within(patience), postgres.Immediate)) },
		func() { require.NoError(t, db.Stop(r.within(patience), postgres.Fast)) },
	} {
		r.pause(1500*time.Millisecond, 2500*time.Millisecond)
		stop()
		r.pause(0, time.Second)
		require.NoError(t, db.Start(r.within(patience)))
	}
	written(t, writers, 100)
	r.Logf("written: %+v", writers.Stop())
	require.NoError(t, p.Ready(r.within(patience)))
	require.Zero(t, r.verdict().Duplicates)
}

// Each status update the connector sends: its flush position never falls and is the end of a commit or a keepalive's
// WAL end, never in between.
func TestPostgresReceivesExactPositions(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	via, dsn := postgresProxy(t, db)
	r := newRig(t, surroundings{db: db, viaDSN: dsn})
	// The first run makes the slot. Nothing moves it before the second one, whose first update is about that position.
	code, err := r.start().Stop(patience)
	require.NoError(t, err)
	require.Zero(t, code)
	r.awaitSlotFree()
	begun := confirmed(r)
	var mu sync.Mutex
	var flushes []oracle.LSN
	keepalives := map[oracle.LSN]bool{}
	via.OnStatus(func(s proxy.Status) {
		mu.Lock()
		defer mu.Unlock()
		flushes = append(flushes, oracle.LSN(s.Flush))
	})
	via.OnKeepalive(func(walEnd uint64) {
		mu.Lock()
		defer mu.Unlock()
		keepalives[oracle.LSN(walEnd)] = true
	})
	r.start()
	writers := r.oracle.StartWriters(oracle.Load{})
	until(t, patience, 20*time.Millisecond, func() (bool, string) {
		mu.Lock()
		defer mu.Unlock()
		return len(flushes) > 10, fmt.Sprintf("%d status updates have come", len(flushes))
	})
	written(t, writers, 200)
	writers.Stop()
	require.NoError(t, r.oracle.AwaitCaughtUp(r.within(patience)))
	truth, err := r.oracle.Truth(t.Context(), &oracle.Report{})
	require.NoError(t, err)
	allowed := map[oracle.LSN]bool{begun: true}
	for i := range truth {
		allowed[truth[i].End] = true
	}
	mu.Lock()
	defer mu.Unlock()
	require.Greater(t, len(flushes), 5)
	require.True(t, slices.IsSorted(flushes), "the flush position fell: %v", flushes)
	for _, f := range flushes {
		require.True(t, allowed[f] || keepalives[f], "flush position %s is neither a commit's end nor a keepalive's", f)
	}
}

// What was acknowledged and never confirmed is repeated after a crash, and nothing else happens.
func TestPostgresNeverReceivesAcknowledgements(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	via, dsn := postgresProxy(t, db)
	r := newRig(t, surroundings{db: db, viaDSN: dsn})
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{})
	for range 3 {
		via.DropStatusUpdates(true)
		r.awaitPublished(p, 200)
		p.Kill()
		via.DropStatusUpdates(false)
		p = r.start()
	}
	writers.Stop()
	require.Positive(t, r.verdict().Duplicates)
}

// A slow, sliced and stalling line to Postgres: frames arrive split.
func TestPostgresOverBadLine(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	via, dsn := postgresProxy(t, db)
	r := newRig(t, surroundings{db: db, viaDSN: dsn})
	r.start()
	via.SetShape(proxy.Down, proxy.Shape{Slice: 7, Latency: 5 * time.Millisecond})
	writers := r.oracle.StartWriters(oracle.Load{Writers: 2, Pause: 20 * time.Millisecond})
	for range 5 {
		written(t, writers, 30)
		via.CutAfter(proxy.Down, int64(r.rng.IntN(50000)))
	}
	writers.Stop()
	via.SetShape(proxy.Down, proxy.Shape{})
	require.Zero(t, r.verdict().Duplicates)
}

// An outbox in which nothing happens beside a busy table and a busy database: the slot follows all the same.
func TestPostgresIdleOutboxInBusyCluster(t *testing.T) {
	db, other := testkit.Postgres(t), testkit.Postgres(t)
	r, _, _ := plainRig(t, db)
	r.start()
	for _, d := range []*testkit.Database{db, other} {
		d.Exec(t, `CREATE TABLE noise (text text)`)
		for range 5 {
			d.Exec(t, `INSERT INTO noise SELECT repeat(md5(g::text), 30) FROM generate_series(1, 30000) g`)
		}
	}
	conn := connect(t, db.DSN)
	began := time.Now()
	retained := int64(-1)
	until(t, patience, 200*time.Millisecond, func() (bool, string) {
		require.NoError(t, conn.QueryRow(t.Context(),
			`SELECT (pg_current_wal_lsn() - restart_lsn)::bigint FROM pg_replication_slots WHERE slot_name = $1`,
			db.Slot).Scan(&retained))
		return retained < 1<<20, "retained: " + mib(retained)
	})
	t.Logf("%s retained after %v", mib(retained), time.Since(began))
}

// One transaction of half a million rows (200,000 without soak) passes through a window of fixed size. Kafka is slower
// than Postgres, so that the window is full.
func TestPostgresVeryLargeTransaction(t *testing.T) {
	rows := soak(500_000, 200_000)
	r, kind, topic := plainRig(t, testkit.Postgres(t))
	_, broker := sharedKafka(t)
	broker.SetShape(proxy.Up, proxy.Shape{Bandwidth: 16 << 20})
	t.Cleanup(func() { broker.SetShape(proxy.Up, proxy.Shape{}) })
	p := r.start()
	r.insert(kind, rows)
	began := time.Now()
	require.NoError(t, r.kafka.Await(r.within(patience), int64(rows), topic))
	took := time.Since(began)
	n := settled(t, func() int64 { // a repetition would follow
		n, err := r.kafka.Count(t.Context(), topic)
		require.NoError(t, err)
		return n
	})
	require.EqualValues(t, rows, n, "no row twice")
	code, err := p.Stop(patience)
	require.NoError(t, err)
	require.Zero(t, code)
	t.Logf("%v, peak RSS %s, CPU %v", took, mib(p.Usage().PeakRSS), p.Usage().CPU)
	require.LessOrEqual(t, p.Usage().PeakRSS, int64(150<<20))
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
