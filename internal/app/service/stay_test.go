package service

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/stay"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
)

// TestAHundredAttemptsLeaveNothingBehind: the cause is fixed and returns again and again. Nothing of an attempt
// outlives it: no goroutine, no session in Postgres, no connection to Kafka, no memory.
func TestAHundredAttemptsLeaveNothingBehind(t *testing.T) {
	db := testkit.Postgres(t)
	broker, err := fakebroker.Start(fakebroker.Options{})
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	s := staying(t, db, broker.Addrs()[0])
	conn, err := db.Server.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error)
	var attempts atomic.Int64
	go func() {
		done <- s.outlive(ctx, func(ctx context.Context, _ *errgroup.Group) error {
			return s.stay.Run(ctx, func(ctx context.Context) error { attempts.Add(1); return s.relay(ctx) })
		})
	}()

	await := func(what string, is func() bool) {
		t.Helper()
		require.Eventually(t, is, time.Minute, time.Millisecond, what)
	}
	var goroutines, sessions int
	var memory uint64
	for n := range 20 {
		await("works", func() bool { ok, _ := s.ready(); return ok })
		if n == 5 { // pools and caches are filled by now
			goroutines, sessions, memory = smallest(t, conn)
		}
		_, err := conn.Exec(t.Context(), "ALTER PUBLICATION "+db.Publication+" DROP TABLE outbox")
		require.NoError(t, err)
		await("stays", func() bool { return s.stay.Standing() != nil })
		began := attempts.Load()
		await("looks again", func() bool { return attempts.Load() >= began+6 })
		_, err = conn.Exec(t.Context(), "ALTER PUBLICATION "+db.Publication+" ADD TABLE outbox")
		require.NoError(t, err)
	}
	await("works", func() bool { ok, _ := s.ready(); return ok })
	require.Greater(t, attempts.Load(), int64(100))
	var g, c int
	var m uint64
	await("nothing is left behind", func() bool { // what an attempt has ended may take a moment to go
		g, c, m = footprint(t, conn)
		return g <= goroutines+10 && c <= sessions+3 && m < memory+4<<20
	})
	t.Logf("goroutines %d, later %d; sessions %d, later %d; bytes %d, later %d", goroutines, g, sessions, c, memory, m)
	end()
	require.NoError(t, <-done)
}

// staying is a service with on_fault: stay that looks again at once.
func staying(t *testing.T, db *testkit.Database, broker string) *walService {
	t.Helper()
	db.Exec(t, `CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL,
		aggregate_id text NOT NULL, event_type text NOT NULL, payload jsonb NOT NULL)`)
	c, err := config.Load(config.Options{Environ: []string{
		"CDC_OUTBOX_POSTGRES_DSN=" + db.DSN, "CDC_OUTBOX_POSTGRES_SLOT=" + db.Slot,
		"CDC_OUTBOX_POSTGRES_PUBLICATION=" + db.Publication, "CDC_OUTBOX_KAFKA_BROKERS=" + broker,
		"CDC_OUTBOX_HTTP_LISTEN=off", "CDC_OUTBOX_MONITOR_INTERVAL=100ms", "CDC_OUTBOX_ON_FAULT=stay",
	}})
	require.NoError(t, err)
	s, err := newWALService(t.Context(), newProcess(Options{Config: c, Logger: zap.NewNop()}))
	require.NoError(t, err)
	s.stay = stay.New(stay.Config{
		On: true, First: time.Millisecond, Again: time.Millisecond, Word: s.last, Logger: zap.NewNop(),
	})
	return s
}

// smallest is the least of many samples, the last twenty of which were not less: what an attempt has ended may take a
// moment to go, the server's side of a session above all. What was forgotten does not go.
func smallest(t *testing.T, conn *pgx.Conn) (goroutines, sessions int, bytes uint64) {
	t.Helper()
	goroutines, sessions, bytes = footprint(t, conn)
	for same := 0; same < 20; same++ {
		g, s, b := footprint(t, conn)
		if g < goroutines || s < sessions {
			same = 0
		}
		goroutines, sessions, bytes = min(goroutines, g), min(sessions, s), min(bytes, b)
	}
	return goroutines, sessions, bytes
}

// footprint counts goroutines, sessions of the database and bytes in use.
func footprint(t *testing.T, conn *pgx.Conn) (goroutines, sessions int, bytes uint64) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = "+
		"current_database()").Scan(&sessions))
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), sessions, m.HeapAlloc
}
