package rabbitmq

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// heldConn is a connection that gathers writes while it is held: the client writes each message alone. It ends with
// its context, and knows when it was heard last.
type heldConn struct {
	net.Conn
	stop  func() bool
	heard atomic.Int64 // time of the last read, UnixNano

	mu   sync.Mutex
	held bool
	buf  []byte
}

const holdsMost = 64 << 10

// dial connects for a handshake that takes at most dialTimeout.
func dial(ctx context.Context, address string) (*heldConn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil { // the client ends it after the handshake
		_ = conn.Close()
		return nil, err
	}
	h := &heldConn{Conn: conn}
	h.heard.Store(time.Now().UnixNano())
	h.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	return h, nil
}

func (c *heldConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

func (c *heldConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf = append(c.buf, b...)
	if c.held && len(c.buf) < holdsMost {
		return len(b), nil
	}
	if err := c.flush(); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (c *heldConn) flush() error {
	if len(c.buf) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.buf)
	c.buf = c.buf[:0]
	if cap(c.buf) > 4*holdsMost {
		c.buf = nil
	}
	return err
}

func (c *heldConn) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = true
}

// release writes what was gathered.
func (c *heldConn) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	return c.flush()
}

func (c *heldConn) Close() error {
	c.stop()
	return c.Conn.Close()
}
