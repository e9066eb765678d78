//go:build e2e

package e2e

import (
	"context"
	"net"
	"sync"
)

// losingDial hands out connections that lose the next Produce requests, and only those.
type losingDial struct {
	mu   sync.Mutex
	lose int
}

func (d *losingDial) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &losingConn{nc, d}, nil
}

type losingConn struct {
	net.Conn
	d *losingDial
}

// Write gets whole requests: the producer's buffer is larger than they are.
func (c *losingConn) Write(p []byte) (int, error) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if len(p) > 200 && p[4] == 0 && p[5] == 0 && c.d.lose > 0 {
		c.d.lose--
		return len(p), nil
	}
	return c.Conn.Write(p)
}
