package replication

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The walsender sends one message a row and flushes whenever the socket takes it. A reader that sleeps in recv is
// woken by each of these sends, and waking it costs the walsender about as much as decoding the row. While the
// server has plenty to say, the reader therefore stays away for some milliseconds and finds half a megabyte instead
// of a row; the walsender becomes 1.4 to 1.9 times faster. At low load it never stays away: there, latency counts.
const (
	napSlice  = time.Millisecond
	napLimit  = 10 * time.Millisecond // also the longest that cancellation has to wait for a nap
	napTarget = 600 << 10             // bytes that lie in the socket when a nap ends; below frameBuffer
	napRate   = 4 << 20               // bytes per second from which on naps are worth their latency
	napWindow = 5 * time.Millisecond  // over which the rate is measured
)

// napper decides when to stay away. Not safe for concurrent use.
type napper struct {
	queued func() int // bytes that wait in the socket, negative where that cannot be known
	sleep  func(time.Duration)
	now    func() time.Time

	started time.Time // of the window being measured
	bytes   int       // read in it
	rate    float64   // of the last whole window, bytes per second
}

// before is called when all that was read has been handled and the next read is due.
func (n *napper) before() {
	n.measure()
	if n.rate < napRate {
		return
	}
	have := n.queued()
	for slept := time.Duration(0); slept < napLimit; slept += napSlice {
		if have < 0 || have >= napTarget {
			return
		}
		n.sleep(napSlice)
		more := n.queued()
		// The server has fallen silent, or cannot send since the socket takes no more: waiting gains nothing.
		if more-have < int(napRate*napSlice/time.Second) {
			return
		}
		have = more
	}
}

// after is told what a read brought.
func (n *napper) after(bytes int) { n.bytes += bytes }

func (n *napper) measure() {
	now := n.now()
	if d := now.Sub(n.started); d >= napWindow {
		n.rate = float64(n.bytes) / d.Seconds()
		n.started, n.bytes = now, 0
	}
}

// socket is the connection to the server below TLS: there a read takes what has piled up in one system call, and
// what is left in the kernel can be asked for. Above TLS a read yields one record, which is one row.
type socket struct {
	net.Conn
	nap       *napper // nil until the stream begins
	buf       []byte  // read ahead for short reads
	rp, wp    int
	bufLength int
}

// directRead is the length from which on a read bypasses the read-ahead buffer.
const directRead = 64 << 10

func newSocket(c net.Conn) *socket { return &socket{Conn: c, bufLength: 8 << 10} }

// stream turns to the stream's ways: long reads and naps.
func (s *socket) stream() {
	s.bufLength = frameBuffer
	if queued := receiveQueue(s.Conn); queued != nil {
		s.nap = &napper{queued: queued, sleep: time.Sleep, now: time.Now}
	}
}

func (s *socket) Read(p []byte) (int, error) {
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
		return s.rp, nil // an error that came along comes again
	}
	return 0, err
}

func (s *socket) read(p []byte) (int, error) {
	if s.nap == nil {
		return s.Conn.Read(p)
	}
	s.nap.before()
	n, err := s.Conn.Read(p)
	s.nap.after(n)
	return n, err
}

// receiveQueue returns a function that asks the kernel how much waits in c's socket, nil where c has none.
func receiveQueue(c net.Conn) func() int {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	queued := -1
	ask := func(fd uintptr) {
		n, err := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		if err != nil {
			n = -1
		}
		queued = n
	}
	return func() int {
		if raw.Control(ask) != nil {
			return -1
		}
		return queued
	}
}
