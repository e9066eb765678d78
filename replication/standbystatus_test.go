package replication

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

func TestStatusContinuesWhileConsumerIsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		confirmed := &cell{}
		_, p := streamTo(t.Context(), t, Config{Confirmed: confirmed.lsn}, Identity{ConfirmedFlush: 100})
		time.Sleep(time.Minute + time.Millisecond)
		got := p.seen()
		require.Len(t, got, 61, "one at once, then one a second")
		for _, u := range got {
			require.Equal(t, statusUpdate{write: 100, flush: 100, apply: 100, after: u.after}, u,
				"flush is never 0; a blocked consumer is no reason to ask")
		}
	})
}

func TestStatusRespectsServerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := streamTo(t.Context(), t, Config{StatusInterval: 10 * time.Second},
			Identity{walSenderTimeout: 3 * time.Second})
		time.Sleep(10*time.Second + time.Millisecond)
		require.Len(t, p.seen(), 11)
	})
}

func TestStatusAnswersARequestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := streamTo(t.Context(), t, Config{}, Identity{ConfirmedFlush: 100})
		time.Sleep(1500 * time.Millisecond)
		p.seen()
		go p.send(keepalive(500, true))
		m, err := s.Receive()
		require.NoError(t, err)
		require.Equal(t, pgoutput.Keepalive{WALEnd: 500, ReplyRequested: true}, m.Keepalive)
		synctest.Wait()
		require.Equal(t, []statusUpdate{{write: 500, flush: 100, apply: 100, after: 1500 * time.Millisecond}}, p.seen())
	})
}

func TestStatusFlushAndWriteNeverFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		confirmed := &cell{}
		_, p := streamTo(t.Context(), t, Config{Confirmed: confirmed.lsn}, Identity{ConfirmedFlush: 100})
		for _, lsn := range []uint64{0, 50, 300, 200, 0, 301} {
			confirmed.Store(lsn)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		last := lsn.LSN(100)
		for _, u := range p.seen() {
			require.GreaterOrEqual(t, u.flush, last)
			require.Equal(t, u.flush, u.apply)
			require.GreaterOrEqual(t, u.write, u.flush)
			last = u.flush
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, lsn.LSN(301), p.seen()[0].flush)
	})
}

func TestStatusAnswersKeepaliveThatMovesConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		confirmed := &cell{}
		s, p := streamTo(t.Context(), t, Config{Confirmed: confirmed.lsn}, Identity{ConfirmedFlush: 100})
		time.Sleep(1500 * time.Millisecond)
		p.seen()
		go p.send(keepalive(500, false))
		_, err := s.Receive()
		require.NoError(t, err)
		confirmed.Store(500)
		go p.send(keepalive(500, false)) // the Receive that sees this one notices
		_, err = s.Receive()
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []statusUpdate{{write: 500, flush: 500, apply: 500, after: 1500 * time.Millisecond}}, p.seen())
	})
}

// TestStatusNoPingPong: with both sides answering at once, a busy cluster would have the two answer each other
// thousands of times a second.
func TestStatusNoPingPong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		confirmed := &cell{}
		s, p := streamTo(t.Context(), t, Config{Confirmed: confirmed.lsn}, Identity{ConfirmedFlush: 100})
		go func() {
			for lsn := lsn.LSN(200); lsn < 1200; lsn++ {
				time.Sleep(time.Millisecond)
				p.send(keepalive(lsn, false))
			}
		}()
		for range 1000 {
			m, err := s.Receive()
			require.NoError(t, err)
			confirmed.Store(uint64(m.Keepalive.WALEnd))
		}
		synctest.Wait()
		require.InDelta(t, 10, len(p.seen()), 2)
	})
}

func TestStatusIdleStreamAsksForKeepalives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := streamTo(t.Context(), t, Config{}, Identity{ConfirmedFlush: 100})
		go func() {
			time.Sleep(11*time.Second + 500*time.Millisecond)
			p.send(keepalive(101, false))
		}()
		_, err := s.Receive()
		require.NoError(t, err)
		var asked []time.Duration
		for _, u := range p.seen() {
			if u.request {
				asked = append(asked, u.after)
			}
		}
		require.Equal(t, []time.Duration{5 * time.Second, 10 * time.Second}, asked)
	})
}

// TestStatusAsksAsEarlyAsConfigured: a client that judges by the server's last word after less than five seconds needs
// one by then.
//
// Bug (stream): With a short `http.stall`, an idle database made the relay alternate between ready and not ready. Cost:
// false alarms.
func TestStatusAsksAsEarlyAsConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := streamTo(t.Context(), t, Config{IdleAsk: 300 * time.Millisecond}, Identity{})
		go func() { _, _ = s.Receive() }()
		time.Sleep(time.Second)
		var asked []time.Duration
		for _, u := range p.seen() {
			if u.request {
				asked = append(asked, u.after)
			}
		}
		require.Equal(t, []time.Duration{300 * time.Millisecond, 600 * time.Millisecond, 900 * time.Millisecond}, asked)
		s.interrupt(ErrInterrupted)
	})
}

func TestStatusSilenceEndsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := streamTo(t.Context(), t, Config{Silence: 30 * time.Second}, Identity{})
		time.Sleep(time.Hour) // outside Receive nothing can be heard: no reason to give up
		begun := time.Now()
		_, err := s.Receive()
		require.ErrorContains(t, err, "silent for 30s")
		require.Equal(t, fault.Retry, fault.KindOf(err))
		require.Equal(t, 30*time.Second, time.Since(begun))
		_, again := s.Receive()
		require.Equal(t, err, again, "errors are final")
		require.NotEmpty(t, p.seen())
	})
}

// TestStatusFrozenPeer: a server that takes nothing must not block a caller for ever.
func TestStatusFrozenPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := streamTo(t.Context(), t, Config{Silence: time.Hour}, Identity{})
		require.NoError(t, p.conn.SetReadDeadline(time.Now())) // the peer stops listening
		begun := time.Now()
		_, err := s.Receive()
		require.ErrorContains(t, err, "sending a standby status")
		require.Equal(t, fault.Retry, fault.KindOf(err))
		require.LessOrEqual(t, time.Since(begun), statusPatience+2*time.Second)
	})
}
