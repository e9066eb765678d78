package replication

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// A stream whose session was ended finds that out by asking the server, before it has read anything of it, and has the
// server's reason; so does one whose slot another session holds by then.
//
// Bug (stream): A session that the server ended at its first transaction was reported as one that does not hold the
// slot any more. Cost: the server's reason was not reported: a row that cannot be decoded was tried again for ever,
// instead of exit 3 with its LSN.
func TestHoldsAsksTheServer(t *testing.T) {
	s := newSource(t, testkit.Postgres(t))
	streams := 0
	require.NoError(t, Run(t.Context(), s.Config, func(ctx context.Context, st *Stream) error {
		if streams++; streams == 2 {
			require.NoError(t, st.Holds(ctx))
			return st.Finish(ctx)
		}
		require.NoError(t, st.Holds(ctx))
		s.Exec(t, `SELECT pg_terminate_backend(active_pid, 60000) FROM pg_replication_slots WHERE slot_name = '`+
			s.Config.Slot+`'`)
		err := st.Holds(ctx)
		require.Equal(t, fault.Retry, fault.KindOf(err))
		require.ErrorContains(t, err, "terminating connection due to administrator command")
		require.NoError(t, Run(ctx, s.Config, func(ctx context.Context, other *Stream) error {
			require.NoError(t, other.Holds(ctx))
			require.ErrorContains(t, st.Holds(ctx), "does not hold it any more")
			return other.Finish(ctx)
		}))
		return err
	}))
	require.Equal(t, 2, streams)
}

// What an instance has confirmed before an interruption must not move the slot before it knows that it was no more than
// that: another instance may have published again, in part, what comes before.
//
// Bug (producer): An instance whose stream was interrupted confirmed what it had acknowledged before, although another
// instance had begun to send it again and died. Cost: an old event remained the last record of its key.
func TestConfirmIsWithheld(t *testing.T) {
	s := newSource(t, testkit.Postgres(t))
	s.Withhold, s.StatusInterval = true, 10*time.Millisecond
	s.Exec(t, `INSERT INTO outbox VALUES (1, 'a')`)
	streams := 0
	var slot lsn.LSN
	require.NoError(t, Run(t.Context(), s.Config, func(ctx context.Context, st *Stream) error {
		if streams++; streams == 1 {
			slot = st.Identity().ConfirmedFlush
			_, err := s.ids(st, 1)
			require.NoError(t, err)
			s.hearsAFew(t)
			require.Equal(t, slot, s.flushed(t))
			return &fault.Error{Kind: fault.Retry, Err: errors.New("interrupted")}
		}
		s.hearsAFew(t)
		require.Equal(t, slot, s.flushed(t))
		st.Confirm()
		require.Eventually(t, func() bool { return s.flushed(t) == lsn.LSN(s.confirmed.Load()) }, 30*time.Second,
			time.Millisecond)
		return st.Finish(ctx)
	}))
}

// A DSN of several hosts asks the server of the stream, not the first that answers.
func TestHoldsAsksTheServerOfTheStream(t *testing.T) {
	s := newSource(t, testkit.Postgres(t))
	require.NoError(t, Run(t.Context(), s.Config, func(ctx context.Context, st *Stream) error {
		config, err := pgconn.ParseConfig(s.Database.DSN)
		require.NoError(t, err)
		c := &connection{config: config, address: "192.0.2.1:5432"}
		_, _, err = c.holder(ctx, s.Config.Slot)
		require.ErrorContains(t, err, "not the server of the stream")
		return st.Finish(ctx)
	}))
}

// A stream that follows another one starts at the transaction that is known, though it is confirmed, unless the slot is
// past it. So it shows that the log is the same.
func TestStreamStartsAtWhatIsKnown(t *testing.T) {
	s := newSource(t, testkit.Postgres(t))
	s.StatusInterval, s.Withhold = 10*time.Millisecond, true
	var known lsn.LSN
	s.From = func() lsn.LSN { return known }
	s.Exec(t, `INSERT INTO outbox VALUES (1, 'a')`)
	s.Exec(t, `INSERT INTO outbox VALUES (2, 'b')`)
	streams := 0
	require.NoError(t, Run(t.Context(), s.Config, func(ctx context.Context, st *Stream) error {
		streams++
		again := &fault.Error{Kind: fault.Retry, Err: errors.New("interrupted")}
		switch streams {
		case 1:
			for known == 0 {
				m, err := st.Receive()
				require.NoError(t, err)
				if m.Kind == pgoutput.KindBegin {
					known = m.Begin.CommitLSN
				}
			}
			for s.confirmed.Load() <= uint64(known) {
				m, err := st.Receive()
				require.NoError(t, err)
				if m.Kind == pgoutput.KindCommit {
					s.confirm(m.Commit.EndLSN)
				}
			}
			return again
		case 2:
			ids, err := s.ids(st, 2)
			require.NoError(t, err)
			require.Equal(t, []string{"1", "2"}, ids, "the first is confirmed, and known")
			past, err := st.Past(ctx, known)
			require.NoError(t, err)
			require.False(t, past)
			st.Confirm()
			require.Eventually(t, func() bool { return s.flushed(t) > known }, 30*time.Second, time.Millisecond)
			past, err = st.Past(ctx, known)
			require.NoError(t, err)
			require.True(t, past)
			return again
		}
		require.Equal(t, lsn.LSN(s.confirmed.Load()), st.Identity().Start, "the slot is past it")
		return st.Finish(ctx)
	}))
	require.Equal(t, 3, streams)
}
