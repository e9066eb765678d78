package replication

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

const (
	// idleAsk is the default of Config.IdleAsk. If nothing is published the slot advances by keepalives only, and
	// the server sends none unasked to a client that looks caught up.
	idleAsk = 5 * time.Second
	// movedGap keeps a client and a server that both answer at once from answering each other without end: on a busy
	// cluster every few bytes of foreign WAL bring a keepalive.
	movedGap = 100 * time.Millisecond
	// statusPatience is how long one status update may take to go out. The socket's buffer holds thousands of them:
	// a full one means that the server has read nothing for a long while.
	statusPatience = 10 * time.Second
)

// statusClock sends standby status updates (Postgres docs 55.4) from a goroutine of its own: at an interval, when the
// server asks, and when a keepalive has moved the confirmed position. It goes on while the consumer is blocked, since a
// server that hears nothing for wal_sender_timeout ends the session; that is also why it watches for a server that
// has fallen silent.
type statusClock struct {
	s    *Stream
	wake chan struct{}
	quit chan struct{}
	done chan struct{}
	once sync.Once

	asked atomic.Bool // the server wants a reply
	moved atomic.Bool // a keepalive moved the confirmed position

	mu    sync.Mutex            // one update at a time on the wire
	flush atomic.Uint64         // the position last reported; never falls
	sent  time.Duration         // when, since the stream's epoch
	buf   [5 + 1 + 4*8 + 1]byte // the message being sent
}

func (c *statusClock) start(s *Stream) {
	c.s = s
	c.wake = make(chan struct{}, 1)
	c.quit = make(chan struct{})
	c.done = make(chan struct{})
	begin := s.identity.ConfirmedFlush
	if s.withheld.Load() {
		begin = min(begin, s.identity.slot.ConfirmedFlush) // the checkpoint may be ahead of the slot
	}
	c.flush.Store(uint64(begin))
	go c.run()
}

// stop ends the goroutine and waits for it.
func (c *statusClock) stop() {
	c.once.Do(func() { close(c.quit) })
	<-c.done
}

// ask answers the server's request at once.
func (c *statusClock) ask() {
	c.asked.Store(true)
	c.nudge()
}

// confirmed receives the confirmed position after a keepalive; if it is new, the server hears it before the clock's
// time.
func (c *statusClock) confirmed(at lsn.LSN) {
	if uint64(at) > c.flush.Load() {
		c.moved.Store(true)
		c.nudge()
	}
}

func (c *statusClock) nudge() {
	select {
	case c.wake <- struct{}{}:
	default: // awake already
	}
}

func (c *statusClock) run() {
	defer close(c.done)
	interval := c.s.statusInterval()
	silence := c.s.silence
	ask := min(c.s.cfg.IdleAsk, silence/2)
	// the first one is due: it shows the server, and anyone who watches, that a client is there
	c.sent = -interval
	var requested time.Duration // when a keepalive was last asked for
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.quit:
			return
		case <-timer.C:
		case <-c.wake:
		}
		now := time.Since(c.s.epoch)
		idle := c.s.waitedUntil(now)
		if idle >= silence {
			c.s.interrupt(c.s.cfg.retry(&silentServer{silence}))
			return
		}
		request := idle >= ask && now-requested >= ask
		if request {
			requested = now
		}
		if request || c.due(now, interval) {
			if err := c.write(request); err != nil {
				c.s.interrupt(c.s.cfg.retry(err))
				return
			}
		}
		now = time.Since(c.s.epoch)
		next := c.sent + interval - now
		if c.moved.Load() {
			next = min(next, c.sent+movedGap-now)
		}
		next = min(next, silence-idle, max(ask-idle, requested+ask-now))
		timer.Reset(max(next, time.Millisecond))
	}
}

// silentServer is a server that has not been heard for so long.
type silentServer struct{ lasted time.Duration }

func (e *silentServer) Error() string {
	return fmt.Sprintf("the server has been silent for %s", e.lasted)
}

// due reports whether an update has to go out now, and clears the server's request.
func (c *statusClock) due(now, interval time.Duration) bool {
	if c.asked.Swap(false) {
		return true
	}
	since := now - c.sent
	return since >= interval || c.moved.Load() && since >= movedGap
}

// write sends one update, and more bytes after it if given. Flush and apply are always the confirmed position, never
// zero and never less than before; write is never less than they are.
func (c *statusClock) write(request bool, behind ...byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved.Store(false) // before Confirmed is asked, so that no move is missed
	flush := max(uint64(c.s.checkpoint.limit(c.s.confirmed())), c.flush.Load())
	c.flush.Store(flush)

	b := c.buf[:]
	b[0] = 'd'
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-1))
	b[5] = 'r'
	binary.BigEndian.PutUint64(b[6:], max(c.s.received.Load(), flush))
	binary.BigEndian.PutUint64(b[14:], flush)
	binary.BigEndian.PutUint64(b[22:], flush)
	binary.BigEndian.PutUint64(b[30:], uint64(time.Since(pgoutput.PostgresEpoch).Microseconds()))
	b[38] = 0
	if request {
		b[38] = 1
	}
	if err := c.s.conn.SetWriteDeadline(time.Now().Add(statusPatience)); err != nil {
		return fmt.Errorf("sending a standby status: %w", err)
	}
	if _, err := c.s.conn.Write(append(b, behind...)); err != nil {
		return fmt.Errorf("sending a standby status: %w", err)
	}
	c.sent = time.Since(c.s.epoch)
	return nil
}

// statusInterval is the configured interval, made shorter if the server's timeout requires it.
func (s *Stream) statusInterval() time.Duration {
	d := s.cfg.StatusInterval
	if t := s.identity.walSenderTimeout; t > 0 {
		d = min(d, t/3)
	}
	return d
}

// waitedUntil is how long Receive has been waiting for the server. While it is not waiting, the server may well have
// spoken and not been heard.
func (s *Stream) waitedUntil(now time.Duration) time.Duration {
	since := s.waiting.Load()
	if since == notWaiting {
		return 0
	}
	return now - time.Duration(since)
}

// reported is the position last reported as flushed.
func (c *statusClock) reported() lsn.LSN { return lsn.LSN(c.flush.Load()) }
