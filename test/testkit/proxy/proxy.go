// Package proxy is a TCP proxy for one upstream that can do to a connection what networks do: delay, throttle, stall,
// slice, cut, refuse. With a protocol set it also understands frames, for faults that must hit one message: a held
// Produce response, dropped status updates.
package proxy

import (
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Direction of bytes as the client sees it.
type Direction int

const (
	Up   Direction = iota // client to server
	Down                  // server to client
)

// Shape is how bytes travel in one direction. The zero value passes everything at once.
type Shape struct {
	Latency   time.Duration // between the arrival of a byte and its departure
	Bandwidth int           // bytes a second; 0: no limit
	Slice     int           // largest single write in bytes; 1 makes every byte a segment. 0: as they come
	// Stalled holds the bytes back until the shape changes: a network that loses every packet. Nothing is lost for
	// good, as TCP sends it again; up to about half a megabyte stays in the proxy, the rest in the sender's socket.
	Stalled bool
}

// Protocol names the frames to understand.
type Protocol int

const (
	Raw      Protocol = iota // none: bytes are bytes. For TLS too
	Kafka                    // Kafka requests and responses
	Postgres                 // PostgreSQL's frontend protocol without TLS
)

// Proxy listens on a free port of 127.0.0.1. Its methods may be called from several goroutines.
type Proxy struct {
	upstream string
	protocol Protocol
	listener net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when a shape changes
	shapes   [2]Shape
	cut      [2]int64 // bytes to pass before the connection is reset; -1: never
	refusing bool
	conns    map[*conn]struct{}
	closed   bool
	openings []byte
	lie      Lie

	kafka    kafkaHooks
	postgres postgresHooks
}

// Start starts a proxy for the upstream address, which need not listen yet. Close it.
func Start(upstream string, protocol Protocol) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		upstream: upstream, protocol: protocol, listener: l, changed: make(chan struct{}), cut: [2]int64{-1, -1},
		conns: map[*conn]struct{}{},
	}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is what clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close ends the listener and all connections and waits for every goroutine.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.Reset()
	p.wg.Wait()
}

// SetShape changes how bytes travel in a direction, on open connections too.
func (p *Proxy) SetShape(d Direction, s Shape) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shapes[d] = s
	close(p.changed)
	p.changed = make(chan struct{})
}

// Stall stops (or passes again) all bytes in both directions.
func (p *Proxy) Stall(on bool) {
	for _, d := range []Direction{Up, Down} {
		s, _ := p.shape(d)
		s.Stalled = on
		p.SetShape(d, s)
	}
}

// CutAfter resets the connection that carries the n-th byte from now on in that direction, right after that byte;
// once.
func (p *Proxy) CutAfter(d Direction, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut[d] = n
}

// Refuse resets new connections (or takes them again). Open ones go on: see Reset.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = on
}

// Away makes the upstream look dead (or lets it come back): open connections are reset, new ones too.
func (p *Proxy) Away(on bool) {
	p.Refuse(on)
	if on {
		p.Reset()
	}
}

// Reset sends RST on every open connection, to both ends.
func (p *Proxy) Reset() {
	p.mu.Lock()
	var all []*conn
	for c := range p.conns {
		all = append(all, c)
	}
	p.mu.Unlock()
	for _, c := range all {
		c.reset()
	}
}

// Redirect leads new connections to another upstream. Open ones go on: see Reset.
func (p *Proxy) Redirect(upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = upstream
}

// Openings is the first byte that each client has sent, in the order of their coming: 22 begins TLS (RFC 8446, section
// 5.1), 0 a Kafka request without it.
func (p *Proxy) Openings() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.openings)
}

func (p *Proxy) opened(with byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.openings = append(p.openings, with)
}

// Connections is the number of open connections.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

func (p *Proxy) shape(d Direction) (Shape, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shapes[d], p.changed
}

// passes says how many of n bytes may pass before the cut, and whether the cut comes right after them.
func (p *Proxy) passes(d Direction, n int) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cut[d] < 0:
		return n, false
	case p.cut[d] > int64(n):
		p.cut[d] -= int64(n)
		return n, false
	}
	n, p.cut[d] = int(p.cut[d]), -1
	return n, true
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	p.mu.Lock()
	refusing, upstream := p.refusing || p.closed, p.upstream
	p.mu.Unlock()
	if refusing {
		_ = client.SetLinger(0)
		client.Close()
		return
	}
	server, err := net.DialTimeout("tcp", upstream, 5*time.Second)
	if err != nil {
		_ = client.SetLinger(0)
		client.Close()
		return
	}
	c := &conn{proxy: p, client: client, server: server.(*net.TCPConn), done: make(chan struct{})}
	p.mu.Lock()
	p.conns[c] = struct{}{}
	closed := p.closed || p.refusing
	p.mu.Unlock()
	if closed { // Close or Refuse came meanwhile and did not see this connection
		c.reset()
	}
	c.run()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// conn is one proxied connection: two directions of a reader and a writer each.
type conn struct {
	proxy          *Proxy
	client, server *net.TCPConn
	done           chan struct{} // closed when the connection ends
	once           sync.Once
	kafka          kafkaConn
	refusals       atomic.Int32 // lone bytes that Postgres still owes as answers to encryption requests
}

func (c *conn) run() {
	var wg sync.WaitGroup
	for _, l := range []*lane{
		{conn: c, dir: Up, from: c.client, to: c.server, queue: make(chan chunk, 16)},
		{conn: c, dir: Down, from: c.server, to: c.client, queue: make(chan chunk, 16)},
	} {
		wg.Go(l.read)
		wg.Go(l.write)
	}
	wg.Wait()
	c.close()
}

func (c *conn) close() {
	c.once.Do(func() {
		close(c.done)
		c.client.Close()
		c.server.Close()
	})
}

// reset ends the connection with RST instead of FIN.
func (c *conn) reset() {
	_ = c.client.SetLinger(0)
	_ = c.server.SetLinger(0)
	c.close()
}

// follow passes on what frames the protocol has, reading from r; emit blocks as long as the lane's queue is full.
func (c *conn) follow(d Direction, r io.Reader, emit func([]byte) error) error {
	switch {
	case c.proxy.protocol == Kafka && d == Up:
		return c.kafkaRequests(r, emit)
	case c.proxy.protocol == Kafka:
		return c.kafkaResponses(r, emit)
	case c.proxy.protocol == Postgres:
		return c.postgresMessages(d, r, emit)
	default:
		return copyN(emit, r, -1)
	}
}
