package kafka

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// memory is the network between producers and the clusters of newCluster: in a bubble of testing/synctest no time
// passes while a goroutine waits for a real socket. Batches that such a test takes apart are not of zstd: its decoders
// come from a pool of the process and hold channels, which are of the bubble that made them.
var (
	memory kfake.VirtualNetwork
	ports  atomic.Int32
)

// inBubble runs a test in a bubble, except with zstd, whose decoders belong to the bubble that made them, see memory.
// In real time its retries take seconds, so unit tests leave it out.
func inBubble(t *testing.T, compression string, test func(t *testing.T)) {
	t.Helper()
	switch {
	case compression != "zstd":
		synctest.Test(t, test)
	case testing.Short():
		t.Skip("in real time")
	default:
		test(t)
	}
}

// lastPort is the last one of TCP. A port in memory is beyond it.
const lastPort = 65535

// memoryPort is one that was not used before.
func memoryPort() int { return lastPort + int(ports.Add(1)) }

// listenInMemory gives port 0 a number that is free, as the kernel does.
func listenInMemory(network, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if port == "0" {
		address = net.JoinHostPort(host, strconv.Itoa(memoryPort()))
	}
	return memory.Listen(network, address)
}

// overTCP is the option of a cluster that is reached by real sockets, outside of bubbles.
var overTCP = kfake.ListenFn(net.Listen)

// dial reaches the brokers in memory, and others by TCP.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if n, err := strconv.Atoi(port); err != nil || n <= lastPort {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	nc, err := memory.DialContext(ctx, network, address)
	if ctx.Err() == nil && err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	if err != nil {
		return nil, err
	}
	return &delayedConn{Conn: nc, closed: make(chan struct{})}, nil
}

// newClient is the other client, which says nothing about itself to the brokers: that takes longer than the tests.
func newClient(brokers []string, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...), kgo.Dialer(dial), kgo.DisableClientMetrics())...)
}

// delayedConn takes time to deliver, as a network does: what comes after has a later time.
type delayedConn struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

func (c *delayedConn) Write(p []byte) (int, error) {
	select {
	case <-time.After(100 * time.Microsecond): //waits:ok the network's delay, in a bubble
	case <-c.closed:
	}
	return c.Conn.Write(p)
}

func (c *delayedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// staller is a network that can stop to deliver while it still accepts connections.
type staller struct {
	mu      sync.Mutex
	stalled chan struct{} // closed when it delivers again
}

func (s *staller) stall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = make(chan struct{})
}

func (s *staller) deliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.stalled)
	s.stalled = nil
}

func (s *staller) dial(ctx context.Context, network, address string) (net.Conn, error) {
	broker, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	go s.carry(broker, far)
	go s.carry(far, broker)
	return near, nil
}

func (s *staller) carry(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	for buf := make([]byte, 64<<10); ; {
		n, err := from.Read(buf)
		s.mu.Lock()
		stalled := s.stalled
		s.mu.Unlock()
		if stalled != nil {
			<-stalled
		}
		if _, failed := to.Write(buf[:n]); err != nil || failed != nil {
			return
		}
	}
}
