package replication

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

func TestStreamSkipsKnownPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := streamTo(t.Context(), t, Config{}, Identity{})
		go p.send(notice("55000", "other", "whatever"), message('S', 'a', 0, 'b', 0), commitAt(77),
			xlogData(78, 'A', 1, 2))
		m, err := s.Receive()
		require.NoError(t, err)
		require.Equal(t, pgoutput.KindCommit, m.Kind)
		require.Equal(t, lsn.LSN(77), m.Commit.EndLSN)
		require.Equal(t, lsn.LSN(77), s.Received())
		m, err = s.Receive()
		require.NoError(t, err)
		require.Equal(t, pgoutput.KindOther, m.Kind)
	})
}

func TestStreamErrorsHaveAKind(t *testing.T) {
	tests := map[string]struct {
		send []byte
		kind fault.Kind
		want string
	}{
		"server shuts down": {
			errorResponse("57P01", "terminating connection"), fault.Retry,
			`slot "s" at 0/64: terminating connection (SQLSTATE 57P01)`,
		},
		"publication is missing": {
			errorResponse("42704", "publication does not exist"), fault.Operator,
			"creating it now does not fix this slot",
		},
		"publication is skipped": {
			notice("55000", "LoadPublications", `skipped loading publication "p"`), fault.Operator,
			"creating it now does not fix this slot",
		},
		"an unknown code":        {errorResponse("ZZ999", "what"), fault.Fatal, "ZZ999"},
		"copy ends":              {message('c'), fault.Retry, "the server ended the stream"},
		"unexpected message":     {message('D', 0, 0), fault.Fatal, `protocol message 'D' during replication`},
		"empty CopyData":         {message('d'), fault.Fatal, "an empty CopyData message"},
		"CopyData of other kind": {message('d', 'x'), fault.Fatal, "CopyData of unknown kind 'x'"},
		"short XLogData":         {message('d', 'w', 1), fault.Fatal, "an XLogData message of 2 bytes"},
		"short keepalive":        {message('d', 'k', 1), fault.Fatal, "a keepalive message of 2 bytes"},
		"broken pgoutput": {
			xlogData(0x99, 'B', 1), fault.Fatal, `slot "s" at 0/99: pgoutput message 'B' at 0/99, byte 1`,
		},
		"lost step": {[]byte{'d', 0xff, 0xff, 0xff, 0xff}, fault.Fatal, "impossible length"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := streamTo(t.Context(), t, Config{}, Identity{ConfirmedFlush: 100})
				go p.send(test.send)
				_, err := s.Receive()
				require.ErrorContains(t, err, test.want)
				require.Equal(t, test.kind, fault.KindOf(err))
			})
		})
	}
}

func TestStreamClosedConnectionIsTransient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := streamTo(t.Context(), t, Config{}, Identity{})
		go p.conn.Close()
		_, err := s.Receive()
		require.Equal(t, fault.Retry, fault.KindOf(err))
		require.Error(t, err)
	})
}

var errStop = errors.New("asked to stop")

func TestStreamEndOfContextEndsReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s, p := streamTo(ctx, t, Config{}, Identity{})
		go p.send(append(commitAt(1), commitAt(2)...))
		_, err := s.Receive()
		require.NoError(t, err)
		cancel(errStop)
		synctest.Wait()
		_, err = s.Receive()
		require.Equal(t, errStop, err, "also with a message in memory")
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s, _ := streamTo(ctx, t, Config{}, Identity{})
		time.AfterFunc(time.Second, func() { cancel(errStop) })
		begun := time.Now()
		_, err := s.Receive()
		require.Equal(t, errStop, err)
		require.Equal(t, time.Second, time.Since(begun))
	})
}

func TestStreamInterruptIsNotFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := streamTo(t.Context(), t, Config{}, Identity{})
		time.AfterFunc(time.Second, s.Interrupt)
		_, err := s.Receive()
		require.Equal(t, ErrInterrupted, err)
		go p.send(commitAt(5))
		m, err := s.Receive()
		require.NoError(t, err)
		require.Equal(t, lsn.LSN(5), m.Commit.EndLSN)
	})
}

// done is what a walsender says after CopyDone, with data it had still to send.
func (p *peer) done() {
	p.send(commitAt(900), message('c'), keepalive(901, true), message('C', []byte("COPY 0\x00")...), message('Z', 'I'))
}

func TestFinishReportsEndsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		confirmed := &cell{}
		s, p := streamTo(ctx, t, Config{Confirmed: confirmed.lsn}, Identity{ConfirmedFlush: 100})
		p.onDone = p.done
		time.AfterFunc(time.Second, func() { cancel(errStop) })
		_, err := s.Receive()
		require.Equal(t, errStop, err)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Len(t, p.seen(), 12, "updates go on while the caller drains")
		confirmed.Store(700)
		require.NoError(t, s.Finish(t.Context()))
		got := p.seen()
		require.Equal(t, statusUpdate{write: 700, flush: 700, apply: 700, after: 11 * time.Second}, got[len(got)-1])
		require.True(t, p.copyDone)
	})
}

func TestFinishHasLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := streamTo(t.Context(), t, Config{}, Identity{})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begun := time.Now()
		require.ErrorIs(t, s.Finish(ctx), context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(begun))
		require.Error(t, s.Finish(t.Context()), "a second time")
	})
}

func TestFinishAfterBrokenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := streamTo(t.Context(), t, Config{}, Identity{})
		go p.send(errorResponse("57P01", "terminating connection"))
		_, err := s.Receive()
		require.Equal(t, err, s.Finish(t.Context()))
	})
}
