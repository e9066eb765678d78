package kafka

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
)

// faultDial hands out connections that can be disturbed, on the producer's side of a real connection.
type faultDial struct {
	mu    sync.Mutex
	conns map[*faultConn]struct{}
	// answers counts down on each Produce answer; at zero the fault strikes it.
	answers int
	strike  strike
	struck  int
	code    int16
}

type strike int

const (
	cutAfterAppend  strike = iota // the answer is lost together with the connection
	swallow                       // the answer never comes, nor any later one
	cutBeforeAppend               // the request does not reach the broker
	replaceAnswer                 // the answer is another one: code, for partition 0 of topic "t", alone in the request
)

func newFaultDial() *faultDial { return &faultDial{conns: map[*faultConn]struct{}{}} }

func (d *faultDial) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &faultConn{Conn: nc, d: d, closed: make(chan struct{})}
	d.mu.Lock()
	d.conns[c] = struct{}{}
	d.mu.Unlock()
	return c, nil
}

// arm lets the n-th Produce from now on, counting from 1, be struck.
func (d *faultDial) arm(s strike, n int, code int16) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strike, d.answers, d.code = s, n, code
}

func (d *faultDial) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.struck
}

// due reports whether this Produce is the one. Only called for the strike's own side.
func (d *faultDial) due() bool {
	if d.answers == 0 {
		return false
	}
	d.answers--
	if d.answers > 0 {
		return false
	}
	d.struck++
	return true
}

// faultConn watches the frames that pass.
type faultConn struct {
	net.Conn
	d      *faultDial
	once   sync.Once
	closed chan struct{}

	produces int  // Produce requests written and not answered; guarded by d.mu
	need     int  // bytes of the request that are still to come
	mute     bool // answers are swallowed
}

func (c *faultConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c *faultConn) Write(p []byte) (int, error) {
	d := c.d
	d.mu.Lock()
	cut := false
	for rest := p; len(rest) > 0; {
		if c.need == 0 && len(rest) >= 6 { // the writer's buffer keeps a request's head in one piece
			c.need = int(binary.BigEndian.Uint32(rest)) + 4
			if binary.BigEndian.Uint16(rest[4:]) == 0 {
				c.produces++
				cut = cut || d.strike == cutBeforeAppend && d.due()
			}
		}
		n := min(len(rest), c.need)
		c.need -= n
		rest = rest[n:]
	}
	d.mu.Unlock()
	if cut {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// Read passes whole answers; the brokers write each in one piece, and they are smaller than the reader's buffer.
func (c *faultConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil {
			return n, err
		}
		if passed := c.pass(p[:n]); passed > 0 {
			return passed, nil
		}
	}
}

// pass returns how many of the bytes are let through; the fault strikes after them.
func (c *faultConn) pass(p []byte) int {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	for at := 0; ; {
		switch {
		case c.mute:
			return at
		case len(p)-at < 4:
			return len(p)
		}
		if c.produces > 0 {
			c.produces--
			if d.strike != cutBeforeAppend && d.due() {
				if d.strike == replaceAnswer {
					// size, correlation id, count of topics, "t", count of partitions, index
					binary.BigEndian.PutUint16(p[at+4+4+4+3+4+4:], uint16(d.code))
					at += 4 + int(binary.BigEndian.Uint32(p[at:]))
					if at >= len(p) {
						return len(p)
					}
					continue
				}
				c.mute = true
				if d.strike == cutAfterAppend {
					_ = c.Close()
				}
				continue
			}
		}
		at += 4 + int(binary.BigEndian.Uint32(p[at:]))
		if at >= len(p) {
			return len(p)
		}
	}
}

// cutAll breaks every connection.
func (d *faultDial) cutAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		go func() { _ = c.Conn.Close() }()
	}
}
