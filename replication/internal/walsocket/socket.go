package walsocket

import (
	"net"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/linelimit"
)

// ReadBuffer is the size of the buffer to read into: as much as a napping reader lets pile up, with room to spare.
const ReadBuffer = 1 << 20

// Socket is the connection to the server below TLS: there a read takes what has piled up in one system call, and
// what is left in the kernel can be asked for. Above TLS a read yields one record, which is one row.
type Socket struct {
	net.Conn
	nap       *napper // nil until the stream begins
	buf       []byte  // read ahead for short reads
	rp, wp    int
	bufLength int
}

// directRead is the length from which on a read bypasses the read-ahead buffer.
const directRead = 64 << 10

// New wraps a connection that has just been made.
func New(c net.Conn) *Socket {
	linelimit.Set(c)
	return &Socket{Conn: c, bufLength: 8 << 10}
}

// Stream turns to the stream's ways: long reads and naps.
func (s *Socket) Stream() {
	s.bufLength = ReadBuffer
	if q := kernelQueueOf(s.Conn); q != nil {
		s.nap = &napper{queue: q, sleep: time.Sleep, now: time.Now}
	}
}

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
	if s.nap == nil {
		return s.Conn.Read(p)
	}
	s.nap.queue.fix(true)
	s.nap.before()
	n, err := s.Conn.Read(p)
	s.nap.after(n)
	s.nap.queue.fix(false) // the rows may be long in the consumer's hands
	return n, err
}
