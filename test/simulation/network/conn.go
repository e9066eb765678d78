package network

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Conn is one end of a connection.
type Conn struct {
	net         *Network
	ID          uint64
	Route       Route
	in, out     *stream
	peer        *Conn
	here, there string
	once        sync.Once
}

// room is how much may be under way or unread before a writer has to wait, as in the buffers of two kernels.
const room = 64 << 10

// stream is one direction.
type stream struct {
	net       *Network
	id        uint64
	direction uint64
	conn      *Conn // that writes

	mu       *sync.Mutex // of the connection
	buf      []byte      // arrived
	flying   int         // bytes under way or held
	pieces   uint64
	last     time.Time // when the latest piece arrives
	held     bool
	waiting  []piece // arrived while held
	closed   error   // for the reader, after buf
	gone     bool    // writes fail: the writer has closed, or knows that the reader has
	lost     bool    // what is under way does not arrive
	changed  chan struct{}
	deadline [2]deadline // of the reader, of the writer
}

type piece struct {
	bytes []byte
	end   error
}

type deadline struct {
	at    time.Time
	timer *time.Timer
}

const (
	reading = iota
	writing
)

func newStream(n *Network, id, direction uint64, mu *sync.Mutex) *stream {
	return &stream{net: n, id: id, direction: direction, mu: mu, changed: make(chan struct{})}
}

// wake is called with the lock held.
func (s *stream) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *stream) expired(which int) bool {
	at := s.deadline[which].at
	return !at.IsZero() && !time.Now().Before(at)
}

func (s *stream) setDeadline(which int, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &s.deadline[which]
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = at
	if at.IsZero() {
		return
	}
	if left := time.Until(at); left > 0 {
		d.timer = time.AfterFunc(left, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.wake()
		})
		return
	}
	s.wake()
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.expired(reading):
			return 0, os.ErrDeadlineExceeded
		case len(s.buf) > 0:
			n := copy(p, s.buf)
			if s.buf = s.buf[n:]; len(s.buf) == 0 {
				s.buf = nil
			}
			s.wake()
			return n, nil
		case s.closed != nil:
			return 0, s.closed
		case len(p) == 0:
			return 0, nil
		}
		changed := s.changed
		s.mu.Unlock()
		<-changed
		s.mu.Lock()
	}
}

func (s *stream) write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.flying+len(s.buf) >= room && !s.gone && !s.expired(writing) {
		changed := s.changed
		s.mu.Unlock()
		<-changed
		s.mu.Lock()
	}
	switch {
	case s.gone:
		return 0, &net.OpError{Op: "write", Net: "tcp", Addr: addr(s.conn.there), Err: syscall.ECONNRESET}
	case s.expired(writing):
		return 0, os.ErrDeadlineExceeded
	}
	s.send(piece{bytes: append([]byte(nil), p...)})
	return len(p), nil
}

// send is called with the lock held.
func (s *stream) send(p piece) {
	s.flying += len(p.bytes)
	at := time.Now().Add(s.net.delay(s.id, s.pieces, s.direction, s.conn.Route))
	s.pieces++
	if !at.After(s.last) {
		at = s.last.Add(time.Nanosecond)
	}
	s.last = at
	time.AfterFunc(time.Until(at), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held {
			s.waiting = append(s.waiting, p)
			return
		}
		s.arrive(p)
	})
}

// arrive is called with the lock held.
func (s *stream) arrive(p piece) {
	s.flying -= len(p.bytes)
	if s.lost || s.closed != nil {
		return
	}
	if observe := s.net.Observe; observe != nil {
		observe(s.conn.here, s.conn.there, s.id, p.bytes)
	}
	s.buf = append(s.buf, p.bytes...)
	if p.end != nil {
		s.closed = p.end
		back := s.conn.in // only now does the other side learn that this one has closed
		back.gone = true
		back.wake()
	}
	s.wake()
}

func (s *stream) hold(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held = on; on {
		return
	}
	for _, p := range s.waiting {
		s.arrive(p)
	}
	s.waiting = nil
}

// fail ends the stream for its reader, now or after what is under way, and for its writer.
func (s *stream) fail(err error, after bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.gone
	s.gone = true
	if after {
		if !was {
			s.send(piece{end: err})
		}
	} else {
		s.lost = true
		if s.closed == nil {
			s.closed = err
		}
	}
	s.wake()
}

// lose keeps what is under way, and what follows, from arriving.
func (s *stream) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
}

func (s *stream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
	if s.closed == nil {
		s.closed = net.ErrClosed
	}
	s.buf = nil
	s.wake()
}

func (c *Conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *Conn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close ends both directions: what was written still arrives.
func (c *Conn) Close() error {
	c.once.Do(func() {
		c.in.abandon()
		c.out.fail(io.EOF, true)
	})
	return nil
}

// cut ends the connection for both sides, as a reset does.
func (c *Conn) cut(deliver bool) {
	reset := &net.OpError{Op: "read", Net: "tcp", Addr: addr(c.there), Err: syscall.ECONNRESET}
	c.in.fail(reset, false)
	c.out.fail(reset, deliver)
}

// Reset ends the connection for both sides; nothing under way arrives.
func (c *Conn) Reset() { c.cut(false) }

// LocalAddr is the host that holds this end.
func (c *Conn) LocalAddr() net.Addr { return addr(c.here) }

// RemoteAddr is the other host.
func (c *Conn) RemoteAddr() net.Addr { return addr(c.there) }

// SetDeadline is for both directions.
func (c *Conn) SetDeadline(t time.Time) error {
	c.in.setDeadline(reading, t)
	c.out.setDeadline(writing, t)
	return nil
}

// SetReadDeadline is for Read.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(reading, t)
	return nil
}

// SetWriteDeadline is for Write.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(writing, t)
	return nil
}
