package replication

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// source is a database with an outbox table, a publication and a slot, and a configuration to stream from it.
type source struct {
	*testkit.Database
	Config
	confirmed atomic.Uint64
}

func newSource(t testing.TB, db *testkit.Database) *source {
	s := &source{Database: db}
	db.Exec(t, `CREATE TABLE outbox (id bigint PRIMARY KEY, body text)`)
	db.Exec(t, `CREATE PUBLICATION `+identifier.Quote(db.Publication)+` FOR TABLE outbox`)
	db.Exec(t, `SELECT pg_create_logical_replication_slot('`+db.Slot+`', 'pgoutput')`)
	s.Config = Config{
		DSN:         func() (string, error) { return db.DSN, nil },
		Slot:        db.Slot,
		Publication: db.Publication,
		Confirmed:   func() lsn.LSN { return lsn.LSN(s.confirmed.Load()) },
	}
	return s
}

// confirm moves Confirmed forward.
func (s *source) confirm(at lsn.LSN) { s.confirmed.Store(max(s.confirmed.Load(), uint64(at))) }

// flushed is the slot's confirmed_flush_lsn.
func (s *source) flushed(t testing.TB) lsn.LSN { return s.slotOn(t, s.Server).ConfirmedFlush }

// slotOn is the slot of this name on a server of the cluster.
func (s *source) slotOn(t testing.TB, server *pgserver.Server) postgres.Slot {
	conn, err := server.Connect(t.Context(), s.Name)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	info, err := postgres.LookupSlot(t.Context(), conn, s.Config.Slot)
	require.NoError(t, err)
	return info
}

// ids reads rows until n have been committed and returns their first column; it confirms every commit.
func (s *source) ids(st *Stream, n int) ([]string, error) {
	var ids []string
	for {
		m, err := st.Receive()
		if err != nil {
			return ids, err
		}
		switch m.Kind {
		case pgoutput.KindInsert:
			ids = append(ids, string(m.Tuple[0].Data))
		case pgoutput.KindCommit:
			s.confirm(m.Commit.EndLSN)
			if len(ids) >= n {
				return ids, nil
			}
		}
	}
}

// Bug (stream): A resume position one byte after a commit's end LSN (or message position + length) skips the next
// transaction. Cost: silent loss.
func TestRunStreamsInCommitOrder(t *testing.T) {
	s := newSource(t, testkit.Postgres(t))
	s.Exec(t, `INSERT INTO outbox VALUES (1, 'a')`)
	s.Exec(t, `INSERT INTO outbox VALUES (2, 'b'), (3, NULL)`)
	err := Run(t.Context(), s.Config, func(ctx context.Context, st *Stream) error {
		ids, err := s.ids(st, 3)
		require.NoError(t, err)
		require.Equal(t, []string{"1", "2", "3"}, ids)
		require.NotZero(t, st.Identity().ConfirmedFlush)
		require.Equal(t, s.Name, st.Identity().Database)
		require.GreaterOrEqual(t, st.Received(), lsn.LSN(s.confirmed.Load()))
		require.WithinDuration(t, time.Now(), st.LastHeard(), 30*time.Second)
		return st.Finish(ctx)
	})
	require.NoError(t, err)
	require.Equal(t, lsn.LSN(s.confirmed.Load()), s.flushed(t), "Finish reports what is confirmed")
}

func TestRunRestartsAtCallersPosition(t *testing.T) {
	s := newSource(t, testkit.Postgres(t))
	s.Exec(t, `INSERT INTO outbox VALUES (1, 'a')`)
	s.Exec(t, `INSERT INTO outbox VALUES (2, 'b')`)
	streams := 0
	err := Run(t.Context(), s.Config, func(_ context.Context, st *Stream) error {
		streams++
		ids, err := s.ids(st, 1)
		require.NoError(t, err)
		if streams == 1 {
			require.Equal(t, []string{"1"}, ids)
			s.Exec(t, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '`+
				s.Config.Slot+`'`)
			for err == nil {
				_, err = st.Receive()
			}
			require.Equal(t, fault.Retry, fault.KindOf(err), "%v", err)
			return err
		}
		require.Equal(t, []string{"2"}, ids, "transaction 1 was confirmed by the caller, whatever the slot knows of it")
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 2, streams)
}

// Bug (setup): An idle outbox in a busy cluster pinned the WAL. Cost: a full disk.
func TestRunIdleSlotAdvancesWithForeignWAL(t *testing.T) {
	s := newSource(t, testkit.Postgres(t))
	s.Exec(t, `CREATE TABLE other (x text)`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var end lsn.LSN
	var waited chan struct{}
	err := Run(ctx, s.Config, func(_ context.Context, st *Stream) error {
		s.Exec(t, `INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 10000)`)
		conn, err := s.Connect(ctx, s.Name)
		require.NoError(t, err)
		var text string
		require.NoError(t, conn.QueryRow(ctx, `SELECT pg_current_wal_lsn()::text`).Scan(&text))
		require.NoError(t, conn.Close(ctx))
		end, err = lsn.Parse(text)
		require.NoError(t, err)
		for {
			m, err := st.Receive()
			if err != nil {
				return err
			}
			if m.Kind == pgoutput.KindKeepalive {
				s.confirm(m.Keepalive.WALEnd)
				if m.Keepalive.WALEnd >= end && waited == nil {
					waited = make(chan struct{})
					go func() {
						defer close(waited)
						defer cancel()
						assert.Eventually(t, func() bool { return s.flushed(t) >= end }, time.Minute,
							10*time.Millisecond)
					}()
				}
			}
		}
	})
	require.NoError(t, err)
	<-waited
	require.GreaterOrEqual(t, s.flushed(t), end)
}

func TestRunWaitingInstanceTakesOver(t *testing.T) {
	s := newSource(t, testkit.Postgres(t))
	release := make(chan struct{})
	holding := make(chan struct{})
	first := make(chan error, 1)
	go func() {
		first <- Run(t.Context(), s.Config, func(context.Context, *Stream) error {
			close(holding)
			<-release
			return nil
		})
	}()
	<-holding
	standby := s.Config
	standby.OnState = func(st State) {
		if st.Phase == WaitingForSlot {
			require.NotZero(t, st.HolderPID)
			select {
			case <-release:
			default:
				close(release)
			}
		}
	}
	require.NoError(t, Run(t.Context(), standby, func(context.Context, *Stream) error { return nil }))
	require.NoError(t, <-first)
}

// Bug (setup): Postgres 18 warns and skips rows of a missing publication instead of failing; they were confirmed
// unseen. Cost: silent loss.
func TestRunMistakesNeedOperator(t *testing.T) {
	db := testkit.Postgres(t)
	s := newSource(t, db)
	s.Exec(t, `SELECT pg_create_logical_replication_slot('`+s.Config.Slot+`_other', 'test_decoding')`)
	tests := map[string]struct {
		change func(*Config)
		kind   fault.Kind
		want   string
	}{
		"no such slot": {func(c *Config) {
			c.Slot = "missing"
		}, fault.Operator, "cdc-outbox slot recreate --yes-lose-events"},
		"another plugin":  {func(c *Config) { c.Slot += "_other" }, fault.Operator, `Its plugin is "test_decoding"`},
		"upper-case slot": {func(c *Config) { c.Slot = "Slot" }, fault.Config, "only a-z"},
		"another database": {func(c *Config) {
			c.DSN = func() (string, error) { return db.Server.DSN("postgres"), nil }
		}, fault.Operator, "belongs to database"},
		"no such database": {func(c *Config) {
			c.DSN = func() (string, error) { return db.Server.DSN("nowhere"), nil }
		}, fault.Operator, "3D000"},
		"no such role": {func(c *Config) {
			c.DSN = func() (string, error) { return strings.Replace(db.DSN, "postgres@", "nobody@", 1), nil }
		}, fault.Operator, "28000"},
		"unreadable DSN": {func(c *Config) {
			c.DSN = func() (string, error) { return "postgres://u:secret@h:pass/word", nil }
		}, fault.Config, "postgres.dsn"},
		"no such publication": {func(c *Config) {
			c.Publication = `No "such", 'one'`
		}, fault.Operator, `publication "No "such", 'one'"`},
		"restored from a copy": {func(c *Config) {
			c.Confirmed = func() lsn.LSN { return 1 << 60 }
		}, fault.Operator, "restored from an older copy"},
	}
	s.Exec(t, `INSERT INTO outbox VALUES (1, 'a')`)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := s.Config
			test.change(&cfg)
			err := Run(t.Context(), cfg, func(_ context.Context, st *Stream) error {
				for {
					if _, err := st.Receive(); err != nil {
						return err
					}
				}
			})
			require.ErrorContains(t, err, test.want)
			require.Equal(t, test.kind, fault.KindOf(err), "%v", err)
			require.NotContains(t, err.Error(), "secret")
			require.NotContains(t, err.Error(), "pass/word")
		})
	}
}

func TestRunPublicationWithAnyName(t *testing.T) {
	db := testkit.Postgres(t)
	db.Publication = `Out "box", it's 'mine'`
	s := newSource(t, db)
	s.Exec(t, `INSERT INTO outbox VALUES (1, 'a')`)
	err := Run(t.Context(), s.Config, func(_ context.Context, st *Stream) error {
		_, err := s.ids(st, 1)
		return err
	})
	require.NoError(t, err)
}

// TestRunLargeMessages: a row larger than the read buffer, among small ones.
func TestRunLargeMessages(t *testing.T) {
	s := newSource(t, testkit.Postgres(t))
	s.Exec(t,
		`INSERT INTO outbox SELECT i, repeat('x', CASE i % 3 WHEN 0 THEN 5000000 ELSE 10 END)
			FROM generate_series(1, 9) i`)
	err := Run(t.Context(), s.Config, func(_ context.Context, st *Stream) error {
		for want := 1; want <= 9; {
			m, err := st.Receive()
			if err != nil {
				return err
			}
			if m.Kind == pgoutput.KindInsert {
				require.Equal(t, strconv.Itoa(want), string(m.Tuple[0].Data))
				require.Len(t, m.Tuple[1].Data, map[bool]int{true: 5000000, false: 10}[want%3 == 0])
				want++
			}
		}
		require.LessOrEqual(t, len(st.frames.buf), 8<<20)
		return nil
	})
	require.NoError(t, err)
}

// TestRunSurvivesRestart: before PG 17 a restart sets the slot back to what was last saved; the stream starts
// where the caller is, so nothing comes twice.
func TestRunSurvivesRestart(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, pgserver.Options{})
	s := newSource(t, db)
	s.Exec(t, `INSERT INTO outbox VALUES (1, 'a')`)
	s.Exec(t, `INSERT INTO outbox VALUES (2, 'b')`)
	var got []string
	var fellBack bool
	s.OnIdentity = func(id Identity) error {
		fellBack = fellBack || id.ConfirmedFlush < lsn.LSN(s.confirmed.Load())
		return nil
	}
	consume := func(_ context.Context, st *Stream) error {
		for len(got) < 4 {
			ids, err := s.ids(st, 1)
			got = append(got, ids...)
			if err != nil {
				return err
			}
			if len(got) == 2 {
				require.NoError(t, db.Restart(t.Context(), pgserver.Immediate))
				s.Exec(t, `INSERT INTO outbox VALUES (3, 'c')`)
				s.Exec(t, `INSERT INTO outbox VALUES (4, 'd')`)
			}
		}
		return nil
	}
	require.NoError(t, Run(t.Context(), s.Config, consume))
	require.Equal(t, []string{"1", "2", "3", "4"}, got)
	require.True(t, fellBack, "the slot did fall back, or this test shows nothing")
}

// patientServer waits an hour for a walsender's client. So it is certain that a shutdown did not.
var patientServer = map[string]string{"wal_sender_timeout": "1h"}

// TestRunDoesNotDelayShutdown: a fast shutdown of Postgres waits until clients report to walsenders that all was
// flushed, so the keepalives of a server that is going down must be answered with what they moved.
func TestRunDoesNotDelayShutdown(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, pgserver.Options{Settings: patientServer})
	s := newSource(t, db)
	s.Exec(t, `INSERT INTO outbox VALUES (1, 'a')`)
	err := Run(t.Context(), s.Config, func(_ context.Context, st *Stream) error {
		_, err := s.ids(st, 1)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		stopped := make(chan error, 1)
		go func() { stopped <- db.Stop(ctx, pgserver.Fast) }()
		for {
			m, err := st.Receive()
			if err != nil {
				require.Equal(t, fault.Retry, fault.KindOf(err), "%v", err)
				break
			}
			switch m.Kind {
			case pgoutput.KindKeepalive:
				s.confirm(m.Keepalive.WALEnd)
			case pgoutput.KindCommit:
				s.confirm(m.Commit.EndLSN)
			}
		}
		require.NoError(t, <-stopped)
		return nil
	})
	require.NoError(t, err)
}

// TestRunReleasesServerThatShutsDown: with Kafka away nothing can be confirmed, and with a full window or a
// halted row nothing is even read. A fast shutdown must not wait for that to end.
//
// Bug (stream): With Kafka away, the open stream blocked a fast shutdown of Postgres forever. Cost: an operator's kill
// -9.
func TestRunReleasesServerThatShutsDown(t *testing.T) {
	for name, reads := range map[string]bool{"reads and cannot confirm": true, "does not even read": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testkit.DedicatedPostgres(t, pgserver.Options{Settings: patientServer})
			s := newSource(t, db)
			s.Exec(t, `INSERT INTO outbox VALUES (1, 'a')`)
			err := Run(t.Context(), s.Config, func(_ context.Context, st *Stream) error {
				_, err := s.ids(st, 1)
				require.NoError(t, err)
				s.Exec(t, `INSERT INTO outbox SELECT g, repeat('x', 1000) FROM generate_series(2, 20000) g`)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				stopped := make(chan error, 1)
				go func() { stopped <- db.Stop(ctx, pgserver.Fast) }()
				for reads && err == nil {
					_, err = st.Receive()
				}
				require.NoError(t, <-stopped)
				_, err = st.Receive()
				require.Equal(t, fault.Retry, fault.KindOf(err), "%v", err)
				require.ErrorContains(t, err, "shutting down")
				return nil
			})
			require.NoError(t, err)
		})
	}
}
