package replication

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/statetables"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// remembering is a source with a table that remembers.
func remembering(t testing.TB, db *testkit.Database) *source {
	s := newSource(t, db)
	s.Config.Checkpoint = identifier.Table{Schema: "public", Name: "cdc_outbox_slots"}
	s.Exec(t, statetables.CheckpointDDL(s.Config.Checkpoint))
	return s
}

// remembered is what the database has of the position.
func (s *source) remembered(t testing.TB) lsn.LSN { return s.rememberedOn(t, s.Server) }

// rememberedOn asks another server of its cluster.
func (s *source) rememberedOn(t testing.TB, server *pgserver.Server) lsn.LSN {
	conn, err := server.Connect(t.Context(), s.Name)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var text string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT position FROM cdc_outbox_slots WHERE slot = $1`,
		s.Config.Slot).Scan(&text))
	at, err := lsn.Parse(text)
	require.NoError(t, err)
	return at
}

// readOne streams until one row is confirmed; a crash leaves the stream as it is, otherwise it ends in good order.
func (s *source) readOne(t testing.TB, crash bool) error {
	return Run(t.Context(), s.Config, func(ctx context.Context, st *Stream) error {
		if _, err := s.ids(st, 1); err != nil || crash {
			return err
		}
		return st.Finish(ctx)
	})
}

// follow confirms everything, also what keepalives bring, until the stream ends.
func (s *source) follow(st *Stream) error {
	for {
		m, err := st.Receive()
		if err != nil {
			return err
		}
		switch m.Kind {
		case pgoutput.KindCommit:
			s.confirm(m.Commit.EndLSN)
		case pgoutput.KindKeepalive:
			s.confirm(m.Keepalive.WALEnd)
		}
	}
}

// following runs a stream that confirms everything, and gives it to the test.
func (s *source) following(t *testing.T) (*Stream, func() error) {
	ctx, stop := context.WithCancel(t.Context())
	opened, done := make(chan *Stream, 16), make(chan error, 1)
	go func() {
		done <- Run(ctx, s.Config, func(_ context.Context, st *Stream) error {
			opened <- st
			return s.follow(st)
		})
	}()
	select {
	case st := <-opened:
		return st, func() error { stop(); return <-done }
	case err := <-done:
		stop()
		require.NoError(t, err)
	}
	return nil, nil
}

// hears waits until the server has a status update that is younger than the call.
func (s *source) hears(t testing.TB) {
	t.Helper()
	asked := time.Now()
	conn, err := s.Connect(t.Context(), s.Name)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	require.Eventually(t, func() bool { return s.lastReply(t, conn).After(asked) }, time.Minute, 5*time.Millisecond)
}

// hearsAFew waits for several of them, for what none of them may say: the first may have been composed before the call.
func (s *source) hearsAFew(t testing.TB) {
	t.Helper()
	for range 3 {
		s.hears(t)
	}
}

// lastReply is when the status update was sent that the server has heard last; zero where there is none.
func (s *source) lastReply(t testing.TB, conn *pgx.Conn) time.Time {
	t.Helper()
	var at *time.Time
	err := conn.QueryRow(t.Context(), `SELECT reply_time FROM pg_stat_replication r
		JOIN pg_replication_slots l ON l.active_pid = r.pid WHERE l.slot_name = $1`, s.Config.Slot).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && at == nil {
		return time.Time{}
	}
	require.NoError(t, err)
	return *at
}

// insert writes one more row.
func (s *source) insert(t testing.TB) {
	s.Exec(t, `INSERT INTO outbox SELECT coalesce(max(id), 0) + 1, 'x' FROM outbox`)
}

// heldBack waits until the stream says so, and returns what can be done.
func heldBack(t testing.TB, st *Stream) *fault.Error {
	var why error
	require.Eventually(t, func() bool {
		var since time.Time
		since, why = st.HeldBack()
		return !since.IsZero()
	}, time.Minute, 20*time.Millisecond)
	var f *fault.Error
	require.ErrorAs(t, why, &f)
	return f
}

// reads writes one more row and waits until the stream has it.
func (s *source) reads(t testing.TB, st *Stream) {
	t.Helper()
	before := st.lastRow.Load()
	s.insert(t)
	require.Eventually(t, func() bool { return st.lastRow.Load() > before }, time.Minute, 5*time.Millisecond)
}

// catchesUp waits until everything is reported to the slot.
func (s *source) catchesUp(t testing.TB, st *Stream) {
	s.reads(t, st)
	require.Eventually(t, func() bool {
		since, _ := st.HeldBack()
		return since.IsZero() && s.confirmed.Load() > 0 &&
			s.flushed(t) >= lsn.LSN(st.lastRow.Load()) && s.flushed(t) <= s.remembered(t)
	}, time.Minute, 50*time.Millisecond)
}

// beginsAgain is another process, which catches up as well.
func (s *source) beginsAgain(t *testing.T) {
	s.confirmed.Store(0)
	st, stop := s.following(t)
	s.catchesUp(t, st)
	require.NoError(t, stop())
}

// requireRefusal wants an error that an operator has to deal with, with these words in it.
func requireRefusal(t *testing.T, err error, words ...string) {
	t.Helper()
	var f *fault.Error
	require.ErrorAs(t, err, &f)
	require.Equal(t, fault.Operator, f.Kind, "%v", err)
	for _, w := range words {
		require.Contains(t, err.Error(), w)
	}
}

// failing are the findings that are not OK, by subject.
func failing(findings []preflight.Finding) map[string]preflight.Finding {
	out := map[string]preflight.Finding{}
	for _, f := range findings {
		if f.Level != preflight.OK {
			out[f.Subject] = f
		}
	}
	return out
}
