package nats

import (
	"context"
	"net"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
)

// Bounds of a connection. A server that hangs is left after two pings without an answer.
const (
	dialTimeout = 5 * time.Second
	pingEvery   = 5 * time.Second
	askTimeout  = 5 * time.Second // of a question to JetStream
)

// connect opens a connection to one of the servers, which ends with ctx at the latest. Login and certificates are read
// now. The options come last. Servers that a server names are not asked: the login is for the configured servers.
func (c *Cluster) connect(ctx context.Context, more ...client.Option) (*connection, error) {
	login, err := c.Login.options()
	if err != nil {
		return nil, &unreadableError{err}
	}
	options := append([]client.Option{
		client.Name(c.ClientName), client.NoReconnect(), client.Timeout(dialTimeout), client.PingInterval(pingEvery),
		client.MaxPingsOutstanding(2), client.FlusherTimeout(dialTimeout), client.SkipHostLookup(),
		client.IgnoreDiscoveredServers(), client.SetCustomDialer(dialer{ctx}),
	}, login...)
	if c.TLS != nil {
		tls, err := c.TLS()
		if err != nil {
			return nil, &unreadableError{err}
		}
		if tls != nil {
			options = append(options, client.Secure(tls))
		}
	}
	conn, err := client.Connect(strings.Join(c.Servers, ","), append(options, more...)...)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &connection{Conn: conn, js: js}, nil
}

// dialer dials connections that end with its context. The library has no other means to end a handshake with a server
// that hangs, or a write to it.
type dialer struct{ ctx context.Context }

// Dial implements client.CustomDialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(d.ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &endingConn{Conn: conn, stop: context.AfterFunc(d.ctx, func() { _ = conn.Close() })}, nil
}

type endingConn struct {
	net.Conn
	stop func() bool
}

func (c *endingConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// unreadableError is for a file of the login that cannot be read.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }

// dial returns a connection and a channel that is closed with it. The library's own way to connect again would keep
// sending what it has in its buffer; a new connection begins with nothing.
func (p *Producer) dial(ctx context.Context) (*connection, <-chan struct{}, error) {
	closed := make(chan struct{})
	conn, err := p.cfg.connect(ctx,
		client.ClosedHandler(func(*client.Conn) { close(closed) }),
		client.LameDuckModeHandler(func(c *client.Conn) { c.Close() }),
		client.ErrorHandler(func(_ *client.Conn, _ *client.Subscription, err error) {
			if strings.Contains(strings.ToLower(err.Error()), client.PERMISSIONS_ERR) {
				p.report(rightTrouble(err))
			}
		}),
	)
	return conn, closed, err
}

// connected lets calls use the connection.
func (p *Producer) connected(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = c
	p.limits.payload = c.MaxPayload()
	p.queue.again()
	p.clear()
	p.announce()
	p.log.Debug("connected to NATS", zap.String(logkey.Address, c.ConnectedUrlRedacted()))
}

// disconnected takes the connection from the calls that use it.
func (p *Producer) disconnected(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = nil
	p.log.Debug("the connection to NATS is closed", zap.Error(why))
}

// connection waits for a connection.
func (p *Producer) connection(ctx context.Context) (c *connection, err error) {
	err = p.await(ctx, func() (bool, error) {
		c = p.conn
		return c != nil, p.ran
	})
	return c, err
}
