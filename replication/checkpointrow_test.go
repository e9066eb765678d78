package replication

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// rowOf is the slot's row as the database has it.
func (s *source) rowOf(t *testing.T, cp *checkpoint) *postgres.Checkpoint {
	t.Helper()
	row, err := cp.readAgain(t.Context(), cp.near)
	require.NoError(t, err)
	return row
}

// held has a stream without a checkpoint hold the slot, and returns its session.
func (s *source) held(t *testing.T) uint32 {
	t.Helper()
	cfg := s.Config
	cfg.Checkpoint = identifier.Table{}
	ctx, cancel := context.WithCancel(t.Context())
	pid, done := make(chan uint32, 1), make(chan error, 1)
	go func() {
		done <- Run(ctx, cfg, func(_ context.Context, st *Stream) error {
			pid <- st.Identity().BackendPID
			return s.follow(st)
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return <-pid
}

// withRow is a checkpoint of timeline 3 of cluster 1, whose slot is at 500, with a row and a connection.
func withRow(t *testing.T) (*source, *checkpoint, func(position string, writes int)) {
	t.Helper()
	s := remembering(t, testkit.Postgres(t))
	s.Config.Logger = zap.NewNop()
	cp := newCheckpoint(&s.Config)
	cp.id = Identity{SystemID: "1", Timeline: 3, WALEnd: 10000, slot: postgres.Slot{ConfirmedFlush: 500}}
	cp.numbered = true
	cp.id.BackendPID = s.held(t)
	require.NoError(t, cp.open(t.Context(), &cp.near, s.Config.DSN))
	t.Cleanup(cp.close)
	conn, err := s.Connect(t.Context(), s.Name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return s, cp, func(position string, writes int) {
		_, err := conn.Exec(t.Context(), `DELETE FROM cdc_outbox_slots`)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), `INSERT INTO cdc_outbox_slots (slot, system_id, timeline, position, writes)
			VALUES ($1, '1', 3, $2::text::pg_lsn, $3)`, s.Config.Slot, position, writes)
		require.NoError(t, err)
	}
}

// A row that is behind the last number is brought to it. Without a number it also begins at the slot's position, except
// on the primary of a hot standby.
func TestCheckpointRaises(t *testing.T) {
	s, cp, put := withRow(t)
	const kept, slot = lsn.LSN(900), lsn.LSN(500)
	for name, test := range map[string]struct {
		writes int // of the row
		last   int64
		far    bool
		ended  bool
		none   bool
		want   int64
		at     lsn.LSN
	}{
		"as high":               {7, 7, false, false, false, 7, kept},
		"higher":                {8, 7, false, false, false, 8, kept},
		"lower":                 {6, 7, false, false, false, 7, kept},
		"no number":             {0, 7, false, false, false, 7, slot},
		"no number, none known": {0, 0, false, false, false, 0, slot},
		"no number, far":        {0, 7, true, false, false, 7, kept},
		"lower, far":            {6, 7, true, false, false, 7, kept},
		"no row":                {0, 7, false, false, true, 0, kept},
		"no answer":             {0, 7, false, true, false, 0, kept},
	} {
		put(kept.String(), test.writes)
		cp.far, cp.last.Writes = test.far, test.last
		cp.stored.Store(uint64(kept))
		row := &postgres.Checkpoint{Writes: int64(test.writes)}
		if test.none {
			row = nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		if test.ended {
			cancel()
		}
		require.Equal(t, test.ended, cp.raise(ctx, cp.near, row) != nil, name)
		cancel()
		if test.ended {
			require.NoError(t, cp.open(t.Context(), &cp.near, s.Config.DSN))
		}
		got := s.rowOf(t, cp)
		require.Equal(t, test.want, got.Writes, name)
		require.Equal(t, test.at, got.Position, name)
		require.EqualValues(t, test.at, cp.stored.Load(), name)
	}
}

// What is kept elsewhere is compared with the row before anything is written; then the first write is passed on.
func TestCheckpointComparesAndWrites(t *testing.T) {
	s, cp, put := withRow(t)
	var marks []Mark
	s.Config.Marked = func(m Mark) { marks = append(marks, m) }
	kept := func(writes int64) Mark {
		return Mark{SystemID: "1", Timeline: 3, Writes: writes, Position: 900, Published: 800}
	}
	put("0/384", 7)
	cp.stored.Store(900)
	err := cp.compare(t.Context(), kept(8), "Kafka")
	require.Equal(t, fault.Operator, fault.KindOf(err))
	require.Empty(t, marks)
	require.EqualValues(t, 7, s.rowOf(t, cp).Writes)

	require.NoError(t, cp.compare(t.Context(), kept(7), "Kafka"))
	require.Len(t, marks, 1)
	require.EqualValues(t, 8, marks[0].Writes)
	require.EqualValues(t, 8, s.rowOf(t, cp).Writes)

	cp.last, cp.numbered = Mark{}, true
	s.Exec(t, `ALTER TABLE cdc_outbox_slots DROP COLUMN writes`)
	require.NoError(t, cp.compare(t.Context(), kept(9), "Kafka"))
	require.Len(t, marks, 1, "without numbers nothing is written")
	require.False(t, cp.numbered)

	cp.numbered = true
	_, err = cp.update(t.Context(), cp.near, 950)
	require.NoError(t, err)
	require.False(t, cp.numbered)
	require.EqualValues(t, 950, s.rowOf(t, cp).Position)
	_, err = cp.update(t.Context(), cp.near, 940)
	require.NoError(t, err)
	require.EqualValues(t, 950, s.rowOf(t, cp).Position, "it never goes back")

	cp.id.SystemID = "2"
	_, err = cp.readAgain(t.Context(), cp.near)
	require.ErrorContains(t, err, "another cluster's")
	_, err = cp.update(t.Context(), cp.near, 960)
	require.ErrorContains(t, err, "another cluster's")
	s.Exec(t, `ALTER TABLE cdc_outbox_slots DROP COLUMN updated_at`)
	_, err = cp.update(t.Context(), cp.near, 960)
	require.Error(t, err)
	require.False(t, cp.serverShutsDown(t.Context()))
	require.False(t, cp.serverShutsDown(t.Context()), "nor is it after a connection was closed")
}

// A connection that broke is replaced once, and a fresh one is not.
func TestCheckpointReplacesABrokenConnection(t *testing.T) {
	s, cp, put := withRow(t)
	put("0/384", 7)
	cp.last.Writes = 7
	end := func() {
		s.Exec(t, `SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'cdc-outbox checkpoint'`)
	}
	end()
	kept, err := cp.write(t.Context(), &cp.near, s.Config.DSN, 1000)
	require.NoError(t, err)
	require.EqualValues(t, 1000, kept)
	end()
	require.False(t, cp.serverShutsDown(t.Context()))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = cp.write(ended, &cp.near, s.Config.DSN, 1100)
	require.ErrorIs(t, err, context.Canceled)
	cp.close()
	kept, err = cp.write(t.Context(), &cp.near, s.Config.DSN, 1200)
	require.NoError(t, err)
	require.EqualValues(t, 1200, kept)

	s.Exec(t, `CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql
		AS 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(5); RETURN NEW; END';
		CREATE TRIGGER die BEFORE UPDATE ON cdc_outbox_slots FOR EACH ROW EXECUTE FUNCTION die()`)
	for range 2 { // the first attempt has a connection, the second has none
		opened := 0
		limit, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err = cp.write(limit, &cp.near, func() (string, error) {
			opened++
			return s.Config.DSN()
		}, 1300)
		cancel()
		require.Equal(t, sqlstate.AdminShutdown, sqlstate.Of(err))
		require.Equal(t, 1, opened)
	}

	require.NoError(t, cp.open(t.Context(), &cp.near, s.Config.DSN))
	end()
	s.Config.Dial = func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			if _, err := server.Read(make([]byte, 1024)); err == nil {
				_, _ = server.Write(errorResponse(sqlstate.CannotConnectNow, "the database system is shutting down"))
			}
		}()
		return client, nil
	}
	require.True(t, cp.serverShutsDown(t.Context()), "an ended session shows nothing, so another one is opened")
	require.True(t, cp.serverShutsDown(t.Context()))
}
