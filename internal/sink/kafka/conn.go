package kafka

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// conn pipelines Produce requests over one connection: a writer goroutine compresses, stamps and sends; the reader
// matches answers, which a broker gives in the order of the requests.
//
// A conn has no opinion on its unanswered requests: the broker that owns it keeps them, see broker.inflight.
type conn struct {
	wire    *wire.Conn
	cfg     *Config
	version int16

	send chan *request // never blocks: it holds as many as may be in flight
	sent chan expected // on the wire, in order; the reader takes them

	mu     sync.Mutex    // guards flying and the read deadline, which writer and reader both set
	flying int           // requests on the wire without an answer
	quiet  chan struct{} // capacity 1: flying has become 0

	cut context.CancelCauseFunc

	silence *silence // guarded by the producer's lock; nil while answers come
}

// expected is an answer that is due: to a Produce request, or to a call.
type expected struct {
	request *request
	call    *call
}

// call is a request of another kind, while nothing else is on the wire.
type call struct {
	key      protocol.ApiKey
	version  int16
	id       int32
	answered chan protocol.Message // capacity 1
}

func newConn(w *wire.Conn, cfg *Config) (*conn, error) {
	version, err := w.Version(protocol.Produce)
	if err != nil {
		return nil, err
	}
	return &conn{
		wire: w, cfg: cfg, version: version,
		send:  make(chan *request, maxInFlight),
		sent:  make(chan expected, maxInFlight),
		quiet: make(chan struct{}, 1),
	}, nil
}

// run serves the connection until ctx ends or it breaks, and returns why. When it returns both goroutines have
// ended and nothing of the unanswered requests is in use any more.
func (c *conn) run(ctx context.Context, answered func(*request, *wire.ProduceAnswer) error) error {
	var writer sync.WaitGroup
	writer.Go(func() {
		if err := c.write(ctx); err != nil {
			c.cut(err)
		}
	})
	stop := context.AfterFunc(ctx, func() { _ = c.wire.Close() })
	c.cut(c.read(ctx, answered))
	stop()
	_ = c.wire.Close()
	writer.Wait()
	return context.Cause(ctx)
}

// write sends the frames of c.send until ctx ends. Plain TCP goes by writev, straight from the batches; TLS gets a
// buffer in front, for it would make a record of its own out of each small piece.
func (c *conn) write(ctx context.Context) error {
	var (
		frame    frame
		tcp, _   = c.wire.Net.(*net.TCPConn)
		buffered *bufio.Writer
	)
	if tcp == nil {
		buffered = bufio.NewWriterSize(c.wire.Net, 64<<10)
	}
	// The broker gives up on its replicas before the answer is missed here, so that a slow follower costs a
	// REQUEST_TIMED_OUT and not the connection.
	timeout := c.cfg.RequestTimeout * 3 / 4

	for {
		var r *request
		select {
		case <-ctx.Done():
			return nil
		case r = <-c.send:
		}
		for _, b := range r.batches {
			if err := b.finish(c.cfg.codec); err != nil {
				return err
			}
			b.stamp()
		}
		if c.wire.RenewalDue() {
			if err := c.renew(ctx); err != nil {
				return err
			}
		}
		r.id, r.version, r.sentAt = c.wire.NextID(), c.version, time.Now()
		buffers := frame.encode(r, c.cfg.ClientID, timeout)
		if err := c.wire.Net.SetWriteDeadline(r.sentAt.Add(c.cfg.RequestTimeout)); err != nil {
			return err
		}
		var err error
		if tcp != nil {
			_, err = buffers.WriteTo(tcp)
		} else {
			err = writeAll(buffered, buffers)
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return c.wire.Silent(c.cfg.RequestTimeout)
		case err != nil:
			return fmt.Errorf("send to %s: %w", c.wire.Addr, err)
		}
		c.expect()
		c.sent <- expected{request: r}
	}
}

func writeAll(w *bufio.Writer, buffers net.Buffers) error {
	for _, b := range buffers {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return w.Flush()
}

// expect notes that a request is on the wire. The deadline counts from the moment the request is the oldest
// unanswered one: a broker works on one request of a connection at a time.
func (c *conn) expect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flying++; c.flying == 1 {
		_ = c.wire.Net.SetReadDeadline(time.Now().Add(c.cfg.RequestTimeout))
	}
}

func (c *conn) received() {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := time.Time{} // an idle connection may be silent for ever
	if c.flying--; c.flying > 0 {
		deadline = time.Now().Add(c.cfg.RequestTimeout)
	} else {
		poke(c.quiet)
	}
	_ = c.wire.Net.SetReadDeadline(deadline)
}

func (c *conn) read(ctx context.Context, answered func(*request, *wire.ProduceAnswer) error) error {
	var answer wire.ProduceAnswer
	for {
		if _, err := c.wire.Reader.Peek(1); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return c.wire.Silent(c.cfg.RequestTimeout)
			}
			return wire.NoEOF(err)
		}
		// The writer hands a request over when it is done with it: an answer that is quicker waits here, so that a
		// batch is never recycled under the writer's hands.
		var due expected
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case due = <-c.sent:
		}
		if call := due.call; call != nil {
			res, err := c.wire.ReadResponse(call.key, call.version, call.id)
			if err != nil {
				return err
			}
			c.received()
			call.answered <- res
			continue
		}
		r := due.request
		if err := c.wire.ReadProduceAnswer(&answer, r.version, r.id); err != nil {
			return err
		}
		c.received()
		if err := answered(r, &answer); err != nil {
			return err
		}
	}
}

// renew authenticates again on the live connection (KIP-368). The writer calls it between two requests: it waits until
// everything sent is answered, and nothing else goes out before it is through.
func (c *conn) renew(ctx context.Context) error {
	if !c.awaitQuiet(ctx) {
		return context.Cause(ctx)
	}
	return c.wire.Authenticate(ctx, func(req protocol.Message) (protocol.Message, error) { return c.ask(ctx, req) })
}

// awaitQuiet waits until no answer is due; false when ctx ended first.
func (c *conn) awaitQuiet(ctx context.Context) bool {
	for {
		c.mu.Lock()
		flying := c.flying
		c.mu.Unlock()
		if flying == 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-c.quiet:
		}
	}
}

// ask sends a request from the writer and waits for the reader to bring the answer.
func (c *conn) ask(ctx context.Context, req protocol.Message) (protocol.Message, error) {
	key := req.ApiKey()
	version, err := c.wire.Version(key)
	if err != nil {
		return nil, err
	}
	call := &call{key: key, version: version, id: c.wire.NextID(), answered: make(chan protocol.Message, 1)}
	if err := c.wire.Net.SetWriteDeadline(time.Now().Add(c.cfg.RequestTimeout)); err != nil {
		return nil, err
	}
	if err := protocol.WriteRequest(c.wire.Net, version, call.id, c.cfg.ClientID, req); err != nil {
		return nil, fmt.Errorf("send %s to %s: %w", key, c.wire.Addr, err)
	}
	c.expect()
	c.sent <- expected{call: call}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case res := <-call.answered:
		return res, nil
	}
}
