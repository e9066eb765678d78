package nats

import (
	"context"
	"errors"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Producer implements sink.Producer. The goroutine of Run alone sends, reads answers and calls Acked.
type Producer struct {
	cfg  Config
	log  *zap.Logger
	wake chan struct{} // capacity 1: look again

	mu      sync.Mutex
	changed chan struct{} // closed, and made again, at each change that a waiting call may wait for
	conn    *connection   // nil: none
	ran     error         // why Run has returned; ErrStopped for no error
	session
	queue   queue
	trouble *sink.Trouble

	limits   limits
	describe bool // the stream is to be asked for its limits
}

// session is the tenure that Begin has opened.
type session struct {
	owner   string    // empty: none
	created time.Time // of the stream; another time is another stream
	over    error     // ErrFenced or ErrSessionOver; nil: it goes on
	fresh   bool      // it has begun since the goroutine of Run looked last
}

// connection is one connection with the API of JetStream.
type connection struct {
	*client.Conn
	js jetstream.JetStream
}

func newProducer(cfg Config) *Producer {
	return &Producer{
		cfg: cfg, log: cfg.Logger, wake: make(chan struct{}, 1), changed: make(chan struct{}),
	}
}

// ProduceAt implements sink.Producer.
func (p *Producer) ProduceAt(ctx context.Context, rec *router.Record, ticket uint64, pos sink.Position) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	owner, limits, err := p.owner, p.limits, p.usable()
	p.mu.Unlock()
	if err != nil {
		return err
	}
	m, err := limits.newMessage(rec, owner, pos)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.describe = true // a limit may have been raised
		p.poke()
		return err
	}
	m.ticket = ticket
	if err := p.usable(); err != nil {
		return err
	}
	p.queue.add(m)
	p.poke()
	return nil
}

var errNotBegun = errors.New("the session with NATS has not begun")

// usable is nil while records can be taken.
func (p *Producer) usable() error {
	switch {
	case p.ran != nil:
		return p.ran
	case p.over != nil:
		return p.over
	case p.owner == "":
		return errNotBegun
	}
	return nil
}

// goesOn reports whether there is a session that is not over.
func (p *Producer) goesOn() bool { return p.usable() == nil }

// Abandon implements sink.Producer.
func (p *Producer) Abandon() sink.Dropped {
	p.mu.Lock()
	defer p.mu.Unlock()
	dropped := p.queue.clear()
	p.session = session{}
	p.announce()
	return dropped
}

// Drain implements sink.Producer.
func (p *Producer) Drain(ctx context.Context) error {
	return p.await(ctx, func() (bool, error) {
		if p.queue.empty() {
			return true, nil
		}
		return false, p.usable()
	})
}

// await returns once done reports so, or with its error. done is called with the lock.
func (p *Producer) await(ctx context.Context, done func() (bool, error)) error {
	for {
		p.mu.Lock()
		is, err := done()
		changed := p.changed
		p.mu.Unlock()
		if is || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// announce wakes the calls that wait.
func (p *Producer) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// poke has the goroutine of Run look again.
func (p *Producer) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// end ends the session. The records that are not acknowledged stay until Abandon.
func (p *Producer) end(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.goesOn() {
		return
	}
	p.over = why
	p.announce()
	p.log.Warn("the session with NATS is over", zap.String(logkey.Stream, p.cfg.Stream), zap.Error(why))
	if p.cfg.Ended != nil {
		p.cfg.Ended(why)
	}
}

// Mark implements sink.Producer: a transaction of the source has no counterpart in a stream.
func (*Producer) Mark() {}

// Commit implements sink.Producer.
func (*Producer) Commit() {}

// Full implements sink.Producer.
func (*Producer) Full() {}

// Flush implements sink.Producer: a message is sent as soon as it can be.
func (*Producer) Flush() {}

// Refresh implements sink.Producer: a refusal asks for the limits of the stream.
func (*Producer) Refresh() {}

// Remember implements sink.Producer: the position in each message is the mark of the checkpoint, too.
func (*Producer) Remember(sink.Mark) {}

// Remembered implements sink.Producer.
func (*Producer) Remembered(context.Context) error { return nil }

// Grown implements sink.Producer: a stream has no partitions.
func (*Producer) Grown() []sink.Growth { return nil }

// Partitions implements sink.Producer.
func (*Producer) Partitions() int64 { return 1 }
