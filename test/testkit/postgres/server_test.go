package postgres_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/leak"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func start(t *testing.T, opts postgres.Options) *postgres.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a server; run without -short")
	}
	s, err := postgres.Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func setting(t *testing.T, s *postgres.Server, name string) (value string) {
	t.Helper()
	conn, err := s.Connect(t.Context(), "postgres")
	require.NoError(t, err)
	defer conn.Close(context.Background())
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&value))
	return value
}

func TestServerSurvivesStopsAndCrashes(t *testing.T) {
	s := start(t, postgres.Options{WALSegment: 1, Settings: map[string]string{"wal_sender_timeout": "5s"}})
	require.Equal(t, "logical", setting(t, s, "wal_level"))
	require.Equal(t, "1MB", setting(t, s, "wal_segment_size"))
	require.Equal(t, "5s", setting(t, s, "wal_sender_timeout"))
	require.NoError(t, s.Configure(t.Context(), map[string]string{"work_mem": "5MB"}))
	require.NoError(t, s.CreateDatabase(t.Context(), "one"))
	require.NoError(t, s.Exec(t.Context(), "one", "CREATE TABLE t (n int); INSERT INTO t VALUES (1)"))

	port, pid := s.Port(), s.PID()
	for _, stop := range []func(){
		func() { require.NoError(t, s.Stop(t.Context(), postgres.Fast)) },
		func() { require.NoError(t, s.Stop(t.Context(), postgres.Immediate)) },
		s.Kill,
	} {
		stop()
		require.Error(t, s.Exec(t.Context(), "one", "SELECT 1"), "it is stopped")
		require.NoError(t, s.Start(t.Context()))
		require.NoError(t, s.Exec(t.Context(), "one", "INSERT INTO t VALUES (1)"))
	}
	require.Equal(t, port, s.Port())
	require.NotEqual(t, pid, s.PID())
	require.Equal(t, "5MB", setting(t, s, "work_mem"))
}

func TestServerFrozenUntilContinued(t *testing.T) {
	s := start(t, postgres.Options{})
	conn, err := s.Connect(t.Context(), "postgres")
	require.NoError(t, err)
	defer conn.Close(context.Background())
	require.NoError(t, s.SignalAll(syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = conn.Exec(ctx, "SELECT 1")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, s.SignalAll(syscall.SIGCONT))
	require.NoError(t, s.Exec(t.Context(), "postgres", "SELECT 1"))
}

func TestDropDatabaseDropsItsSlots(t *testing.T) {
	s := start(t, postgres.Options{})
	require.NoError(t, s.CreateDatabase(t.Context(), "one"))
	require.NoError(t, s.Exec(t.Context(), "one", "SELECT pg_create_logical_replication_slot('s', 'pgoutput')"))
	require.NoError(t, s.DropDatabase(t.Context(), "one"))
	require.Error(t, s.Exec(t.Context(), "one", "SELECT 1"))
}

func TestFindUnknownVersionNamesRemedy(t *testing.T) {
	t.Setenv(postgres.EnvRepository, "http://127.0.0.1:1")
	t.Setenv("CDC_OUTBOX_TEST_CACHE", t.TempDir())
	_, err := postgres.Find("13.99.0")
	require.ErrorContains(t, err, "install the server package, e.g. postgresql-13, or set CDC_OUTBOX_TEST_PG_BIN")
}
