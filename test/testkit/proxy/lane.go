package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"time"
)

// errEnded says that the connection was closed from our side.
var errEnded = errors.New("connection ended")

// chunk is bytes in transit and when they came.
type chunk struct {
	bytes []byte
	at    time.Time
}

// lane carries one direction. Reader and writer are apart so that latency delays bytes without delaying the bytes after
// them.
type lane struct {
	conn     *conn
	dir      Direction
	from, to *net.TCPConn
	queue    chan chunk
}

func (l *lane) read() {
	defer close(l.queue)
	first := l.dir == Up
	err := l.conn.follow(l.dir, bufio.NewReaderSize(l.from, 32<<10), func(b []byte) error {
		if len(b) == 0 {
			return nil
		}
		if first {
			first = false
			l.conn.proxy.opened(b[0])
		}
		select {
		case l.queue <- chunk{append([]byte(nil), b...), time.Now()}:
			return nil
		case <-l.conn.done:
			return errEnded
		}
	})
	if err != nil && !errors.Is(err, io.EOF) {
		l.conn.reset()
	}
}

func (l *lane) write() {
	for c := range l.queue {
		if err := l.send(c); err != nil {
			l.conn.reset()
			for range l.queue { // the reader may be blocked on it
			}
			return
		}
	}
	_ = l.to.CloseWrite() // pass the end of the stream on; the other direction may still talk
}

func (l *lane) send(c chunk) error {
	for len(c.bytes) > 0 {
		shape, err := l.clear(c.at)
		if err != nil {
			return err
		}
		n := len(c.bytes)
		if shape.Slice > 0 {
			n = min(n, shape.Slice)
		}
		// the time on the wire comes before the arrival; in small steps, so that a slow line trickles
		if shape.Bandwidth > 0 {
			n = min(n, max(shape.Bandwidth/50, 1))
			if err := l.sleep(time.Duration(n) * time.Second / time.Duration(shape.Bandwidth)); err != nil {
				return err
			}
		}
		n, cut := l.conn.proxy.passes(l.dir, n)
		if _, err := l.to.Write(c.bytes[:n]); err != nil {
			return err
		}
		if cut {
			return errEnded
		}
		c.bytes = c.bytes[n:]
	}
	return nil
}

// clear waits until bytes that came at a moment may leave, and returns the shape they leave under.
func (l *lane) clear(at time.Time) (Shape, error) {
	for {
		shape, changed := l.conn.proxy.shape(l.dir)
		if !shape.Stalled {
			return shape, l.sleep(time.Until(at.Add(shape.Latency)))
		}
		select {
		case <-changed:
		case <-l.conn.done:
			return shape, errEnded
		}
	}
}

func (l *lane) sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-l.conn.done:
		return errEnded
	}
}

// copyN emits n bytes from r as they arrive; n < 0: all until the end.
func copyN(emit func([]byte) error, r io.Reader, n int64) error {
	buf := make([]byte, 32<<10)
	for n != 0 {
		want := buf
		if n > 0 && n < int64(len(want)) {
			want = want[:n]
		}
		got, err := r.Read(want)
		if got > 0 {
			if n > 0 {
				n -= int64(got)
			}
			if err := emit(want[:got]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
