package walsocket

import (
	"net"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/linelimit"
)

const (
	// ReadBuffer is the size of the buffer to read into: more than the kernel's, with room to spare.
	ReadBuffer = 1 << 20
	// receiveBuffer is the kernel's receive buffer while the reader sleeps; the kernel doubles it for its own
	// bookkeeping.
	receiveBuffer = 128 << 10
	// fixedRTT is the round-trip time up to which the buffer is fixed. Over longer ways more has to be under way at a
	// time than it holds, so there the kernel goes on sizing it.
	fixedRTT = 700 * time.Microsecond
	// directRead is the length from which on a read bypasses the read-ahead buffer.
	directRead = 64 << 10
	// backlogWait is how often onWait is called while a backlog is read. Most of it may be rows of other tables.
	backlogWait = 100 * time.Millisecond
	// readAhead is how much is read at once before the stream begins.
	readAhead = 8 << 10
)

// queue is the kernel's queue of received bytes that no read has taken.
type queue interface {
	bytes() int   // negative if the number cannot be known
	lowWater(int) // wake no reader before so many bytes are there
	fix(bool)     // keep the buffer to a size that fills during a sleep, or let the kernel size it
}

// Socket is the connection to the server below TLS: there a read takes all queued bytes in one system call, and the
// kernel can be asked how many are left. Above TLS a read yields one record, which is one row.
type Socket struct {
	net.Conn
	queue     queue // nil until the stream begins, and if the kernel has none
	pace      pacer
	pause     func(time.Duration)
	onWait    func()
	messages  func() int // how many have been cut out of the bytes read
	raised    bool       // the low-water mark is up
	waited    time.Time  // when onWait was called before a sleep
	buf       []byte     // read ahead for short reads
	rp, wp    int
	bufLength int
}

// New wraps a connection that has just been made.
func New(c net.Conn) *Socket {
	linelimit.Set(c)
	return &Socket{Conn: c, bufLength: readAhead, onWait: func() {}}
}

// Stream turns to the stream's ways: long reads, and sleeps between them. onWait is called before a read that may wait
// for the server, and before each sleep; in a backlog, of which there is more, now and then. messages counts the
// messages that the caller has cut out of the bytes read.
func (s *Socket) Stream(onWait func(), messages func() int) {
	s.bufLength = ReadBuffer
	s.onWait, s.messages = onWait, messages
	if q, far := kernelQueueOf(s.Conn); q != nil {
		s.queue, s.pause = q, pause
		// A Unix-domain socket has no low-water mark, so each row would wake the runtime's poller during a sleep.
		_, tcp := s.Conn.(*net.TCPConn)
		s.pace = pacer{limit: first, never: !tcp, far: far}
	}
}

// Late takes whether the rows that arrive now were committed long ago. Then it does not matter when they are read, so
// the reader sleeps however slow the server is. Late belongs to the goroutine that reads.
func (s *Socket) Late(late bool) { s.pace.late = late }

func (s *Socket) Read(p []byte) (int, error) {
	if s.rp < s.wp {
		n := copy(p, s.buf[s.rp:s.wp])
		s.rp += n
		return n, nil
	}
	if len(p) >= directRead {
		return s.read(p)
	}
	if len(s.buf) != s.bufLength {
		s.buf = make([]byte, s.bufLength)
	}
	n, err := s.read(s.buf)
	s.rp, s.wp = 0, n
	if n > 0 {
		s.rp = copy(p, s.buf[:n])
		return s.rp, nil // the next read returns an error that came along again
	}
	return 0, err
}

func (s *Socket) read(p []byte) (int, error) {
	if s.queue == nil {
		s.onWait()
		return s.Conn.Read(p)
	}
	s.queue.fix(true)
	s.stayAway()
	n, err := s.Conn.Read(p)
	s.pace.brought(n)
	s.queue.fix(false) // the rows may be long in the consumer's hands
	return n, err
}

// stayAway sleeps if the socket is dry and the server busy.
func (s *Socket) stayAway() {
	have := s.queue.bytes()
	if have >= enough {
		return // the window was closed, or nearly so: the kernel moves more over while this is read
	}
	if have >= 0 {
		now := time.Now()
		if d := s.pace.sleep(now, have, s.messages()); d > 0 {
			if !s.pace.backlog() || now.Sub(s.waited) >= backlogWait {
				s.onWait()
				s.waited = now
			}
			s.setLowWater(true)
			s.pause(d)
			have = s.queue.bytes()
		}
	}
	if have <= 0 {
		s.onWait()
		s.setLowWater(false)
	}
}

func (s *Socket) setLowWater(up bool) {
	if s.raised == up {
		return
	}
	s.raised = up
	if up {
		s.queue.lowWater(receiveBuffer)
	} else {
		s.queue.lowWater(1)
	}
}
