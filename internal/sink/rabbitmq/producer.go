package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/lanes"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Bounds of the lanes. The window of the source is usually smaller.
const (
	laneCount   = 4096
	mostRecords = 1 << 16
	mostBytes   = 256 << 20
)

// Producer implements sink.Producer. The goroutine of Run calls Acked.
type Producer struct {
	cfg   Config
	log   *zap.Logger
	queue *lanes.Queue[*message]

	mu       sync.Mutex
	turn     chan struct{} // closed, and made again, when owner or current change
	owner    string        // who wants to publish; empty: no source
	tenure   int           // counts Begin and Abandon
	current  *link         // with the queue of the owner; nil: none
	number   int           // of current
	begun    int           // the number at Begin
	ran      error         // why Run has returned
	limits   limits
	learned  time.Time // of limits.message
	troubles map[string]*sighting
	alarm    string // why the server reads nothing; empty: it does
}

func newProducer(cfg Config) *Producer {
	return &Producer{
		cfg: cfg, log: cfg.Logger, turn: make(chan struct{}), troubles: map[string]*sighting{},
		queue: lanes.NewQueue[*message](lanes.Limits{
			Lanes: laneCount, Batch: 1, Records: mostRecords, Bytes: mostBytes,
		}, cfg.Callbacks),
	}
}

// change wakes the calls that wait for an owner or a connection. The caller has the lock.
func (p *Producer) change() {
	close(p.turn)
	p.turn = make(chan struct{})
}

// Latest implements sink.Producer: RabbitMQ stores no position.
func (*Producer) Latest(context.Context, sink.Owner) (sink.Stored, bool, error) {
	return sink.Stored{}, false, nil
}

// Begin implements sink.Producer. It waits until the owner's queue is this connection's.
func (p *Producer) Begin(ctx context.Context, owner sink.Owner) (sink.Stored, bool, error) {
	p.mu.Lock()
	p.owner = owner.ID
	p.tenure++
	p.current = nil // it is of another tenure
	p.change()
	p.mu.Unlock()
	_, number, err := p.connected(ctx)
	if err != nil {
		return sink.Stored{}, false, err
	}
	p.mu.Lock()
	p.begun = number
	p.mu.Unlock()
	p.queue.Begin()
	return sink.Stored{}, false, nil
}

// connected waits for the connection of the owner.
func (p *Producer) connected(ctx context.Context) (*link, int, error) {
	for {
		p.mu.Lock()
		l, number, turn, ran := p.current, p.number, p.turn, p.ran
		p.mu.Unlock()
		switch {
		case ran != nil:
			return nil, 0, ran
		case l != nil:
			return l, number, nil
		}
		select {
		case <-turn:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// Keep implements sink.Producer. While the connection of Begin lasts, the server has kept other owners away.
func (p *Producer) Keep(ctx context.Context) error {
	for {
		if err := p.queue.Usable(); err != nil {
			return err
		}
		l, number, err := p.connected(ctx)
		if err != nil {
			return err
		}
		p.mu.Lock()
		owner, begun := p.owner, p.begun
		p.mu.Unlock()
		if number != begun {
			p.end(fmt.Errorf("%w: the connection to RabbitMQ was lost, and another instance may have had a turn",
				sink.ErrSessionOver))
			return p.queue.Usable()
		}
		answer := make(chan error, 1)
		go func() { answer <- l.still(owner) }() // ends with the connection at the latest
		select {
		case err := <-answer:
			var refused *amqp.Error
			switch {
			case err == nil:
				return nil
			case errors.As(err, &refused) && refused.Server:
				p.end(fmt.Errorf("%w: %w", sink.ErrSessionOver, err)) // the queue was deleted
			}
			pause(ctx, firstWait) // the connection is closed in the meantime
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// still asks for a round trip.
func (l *link) still(owner string) error {
	return l.ask(func(ch *amqp.Channel) error {
		if !l.cluster.Lock {
			return ch.Confirm(false)
		}
		_, err := ch.QueueDeclarePassive(owner, false, false, true, false, nil)
		return err
	})
}

// Abandon implements sink.Producer. The connection ends with the session, so that nothing of it is in transit any more
// when the next one begins.
func (p *Producer) Abandon() sink.Dropped {
	p.mu.Lock()
	if p.owner != "" {
		p.owner = ""
		p.tenure++
		p.current = nil
		p.change()
	}
	p.mu.Unlock()
	return p.queue.Abandon()
}

// ProduceAt implements sink.Producer.
func (p *Producer) ProduceAt(ctx context.Context, rec *router.Record, ticket uint64, _ sink.Position) error {
	if err := p.queue.Usable(); err != nil {
		return err
	}
	m, err := p.cfg.newMessage(rec, p.bounds())
	if err != nil {
		return err
	}
	if m.publishing.MessageId == "" {
		m.publishing.CorrelationId = strconv.FormatUint(ticket, 10) // so that it is known if it comes back
	}
	return p.queue.Add(ctx, rec.Key, lanes.Record[*message]{
		Topic: rec.Topic, Ticket: ticket, Size: int64(rec.Size()), Tag: rec.Tag, Message: m,
	})
}

// bounds are the limits that count. One that the server has named is forgotten after a while: it may have been raised.
func (p *Producer) bounds() limits {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limits.message > 0 && time.Since(p.learned) > time.Minute {
		p.limits.message = 0
	}
	return p.limits
}

// Drain implements sink.Producer.
func (p *Producer) Drain(ctx context.Context) error { return p.queue.Drain(ctx) }

// end ends the session. The records that are not acknowledged stay until Abandon.
func (p *Producer) end(why error) {
	if p.queue.End(why) {
		p.log.Warn("the session with RabbitMQ is over", zap.String(logkey.Object, p.cfg.Exchange), zap.Error(why))
	}
}

// Mark implements sink.Producer: a transaction of the source has no counterpart.
func (*Producer) Mark() {}

// Commit implements sink.Producer.
func (*Producer) Commit() {}

// Full implements sink.Producer.
func (*Producer) Full() {}

// Flush implements sink.Producer: a message is sent as soon as it can be.
func (*Producer) Flush() {}

// Refresh implements sink.Producer.
func (*Producer) Refresh() {}

// Remember implements sink.Producer: RabbitMQ keeps no mark.
func (*Producer) Remember(sink.Mark) {}

// Remembered implements sink.Producer.
func (*Producer) Remembered(context.Context) error { return nil }

// Grown implements sink.Producer: an exchange has no partitions.
func (*Producer) Grown() []sink.Growth { return nil }

// Partitions implements sink.Producer.
func (*Producer) Partitions() int64 { return 1 }
