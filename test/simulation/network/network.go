// Package network is a network in memory, for a bubble of testing/synctest: bytes take time, arrive in order, and can
// be held, lost or cut off. Every delay follows from the seed and the place of the bytes in their connection, so that a
// run does not depend on the order in which goroutines draw random numbers.
package network

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// Network connects hosts by name. Build one with New.
type Network struct {
	seed uint64

	mu        sync.Mutex
	listeners map[string]func(*Conn)
	conns     []*Conn // the dialer's end of each
	dialed    uint64
	held      map[Route]bool
	slow      map[Route]time.Duration
	changed   chan struct{} // closed and replaced when held changes

	// Observe, where set, sees every delivery: for the trace of a run.
	Observe func(from, to string, conn uint64, bytes []byte)
}

// Route is the pair of hosts of a connection: the dialer first.
type Route struct{ From, To string }

// New returns a network whose delays follow from seed.
func New(seed uint64) *Network {
	return &Network{
		seed: seed, listeners: map[string]func(*Conn){}, held: map[Route]bool{}, slow: map[Route]time.Duration{},
		changed: make(chan struct{}),
	}
}

// Listen serves the address: each connection gets a goroutine.
func (n *Network) Listen(address string, serve func(*Conn)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[address] = serve
}

// Refuse ends listening: connections are refused.
func (n *Network) Refuse(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.listeners, address)
}

// Dialer returns a dial function for one host.
func (n *Network) Dialer(from string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) { return n.dial(ctx, from, address) }
}

func (n *Network) dial(ctx context.Context, from, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed++
	id := n.dialed
	n.mu.Unlock()
	if err := wait(ctx, n.delay(id, 0, 2, Route{from, address})); err != nil {
		return nil, err
	}
	n.mu.Lock()
	for n.held[Route{from, address}] {
		changed := n.changed
		n.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
		n.mu.Lock()
	}
	defer n.mu.Unlock()
	serve := n.listeners[address]
	if serve == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addr(address), Err: syscall.ECONNREFUSED}
	}
	mu := new(sync.Mutex)
	there, back := newStream(n, id, 0, mu), newStream(n, id, 1, mu)
	client := &Conn{net: n, ID: id, Route: Route{from, address}, in: back, out: there, here: from, there: address}
	server := &Conn{net: n, ID: id, Route: Route{from, address}, in: there, out: back, here: address, there: from}
	there.conn, back.conn = client, server
	client.peer, server.peer = server, client
	n.conns = append(n.conns, client)
	go serve(server)
	return client, nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Hold keeps everything on a route from arriving, and new connections from coming about, until it is released.
func (n *Network) Hold(r Route, on bool) {
	n.mu.Lock()
	if n.held[r] == on {
		n.mu.Unlock()
		return
	}
	n.held[r] = on
	close(n.changed)
	n.changed = make(chan struct{})
	all := n.on(r)
	n.mu.Unlock()
	for _, c := range all {
		c.in.hold(on)
		c.out.hold(on)
	}
}

// Slow adds to the delay of everything on a route.
func (n *Network) Slow(r Route, by time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow[r] = by
}

// Cut ends all connections of a route. What was sent to the dialed host still arrives there if deliver is set.
func (n *Network) Cut(r Route, deliver bool) int {
	n.mu.Lock()
	all := n.on(r)
	n.mu.Unlock()
	for _, c := range all {
		c.cut(deliver)
	}
	return len(all)
}

// Lose makes everything on the present connections of a route vanish, as when the other host was switched off: neither
// side learns of it.
func (n *Network) Lose(r Route) {
	n.mu.Lock()
	all := n.on(r)
	n.mu.Unlock()
	for _, c := range all {
		c.in.lose()
		c.out.lose()
	}
}

// on lists the connections of a route.
func (n *Network) on(r Route) (all []*Conn) {
	for _, c := range n.conns {
		if c.Route == r {
			all = append(all, c)
		}
	}
	return all
}

// Close cuts every connection.
func (n *Network) Close() {
	n.mu.Lock()
	all := n.conns
	n.mu.Unlock()
	for _, c := range all {
		c.cut(false)
	}
}

// delay is 50 µs to 2 ms, for the nth piece of a direction of a connection, and the same in each run of a seed. It is
// odd in its last digits, so that hardly any two events of a run share an instant.
func (n *Network) delay(conn, nth, direction uint64, r Route) time.Duration {
	n.mu.Lock()
	slow := n.slow[r]
	n.mu.Unlock()
	x := Mix(n.seed ^ Mix(conn<<2|direction) ^ Mix(nth+0x9e3779b97f4a7c15))
	return 50*time.Microsecond + time.Duration(x%uint64(1950*time.Microsecond)) + slow
}

// Mix scatters the bits of x (splitmix64).
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

func (r Route) String() string { return fmt.Sprintf("%s to %s", r.From, r.To) }
