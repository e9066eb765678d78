package consumer

import (
	"context"
	"net"
	"sync"
	"time"
)

// lines are the connections of one membership. A broker may answer a request to join only when all members have, after
// half a minute, and kafka-go waits for that answer before it leaves. So the end of a member cuts the connections from
// before its end, when nothing works with them any more, and it leaves the group by another one.
type lines struct {
	mu   sync.Mutex
	open map[net.Conn]bool
	old  map[net.Conn]bool // nil: the member has not ended
}

// dial is the group's dial function.
func (l *lines) dial(ctx context.Context, network, address string, by dialFunc) (net.Conn, error) {
	if by == nil {
		by = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	conn, err := by(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[conn] = true
	return &line{conn, l}, nil
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

type line struct {
	net.Conn
	of *lines
}

func (c *line) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c.Conn)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// end separates the connections so far from the later ones, which leave the group.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.old == nil {
		l.old, l.open = l.open, map[net.Conn]bool{}
	}
}

// cut closes the connections from before the end.
func (l *lines) cut() {
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.old {
		_ = conn.Close()
	}
}
