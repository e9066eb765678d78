package rabbitmq

import (
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/lanes"
)

// publisher is a channel in confirm mode. One goroutine publishes, and another one reads the answers.
type publisher struct {
	ch       *amqp.Channel
	confirms chan amqp.Confirmation

	// returns has room for all that is in flight: the client drops a message that came back if it is not taken in time,
	// and its confirmation would then count.
	returns chan amqp.Return
	closed  chan *amqp.Error

	mu     sync.Mutex
	flight map[uint64]*flight
	next   uint64 // delivery tag
	newest uint64 // confirmed
}

// flight is a message without an answer.
type flight struct {
	batch    lanes.Batch
	message  *message
	deferred *amqp.DeferredConfirmation // nil: it is being published
	returned *amqp.Return
	at       time.Time
}

// open opens the channels for publishing.
func (l *link) open() error {
	for i := range l.publishers {
		ch, err := l.conn.Channel()
		if err != nil {
			return err
		}
		if err := ch.Confirm(false); err != nil {
			return err
		}
		l.publishers[i] = &publisher{
			ch: ch, flight: map[uint64]*flight{},
			confirms: ch.NotifyPublish(make(chan amqp.Confirmation, inFlight)),
			returns:  ch.NotifyReturn(make(chan amqp.Return, inFlight)),
			closed:   ch.NotifyClose(make(chan *amqp.Error, 1)),
		}
	}
	return nil
}

// hasRoom reports whether the channel takes another message.
func (p *publisher) hasRoom() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.flight) < inFlight
}

// publish sends a message. The answer may come before it returns. After an error the channel is of no use.
func (p *publisher) publish(b lanes.Batch, m *message) error {
	f := &flight{batch: b, message: m, at: time.Now()}
	p.mu.Lock()
	p.next++
	tag := p.next
	p.flight[tag] = f
	p.mu.Unlock()
	c, err := p.ch.PublishWithDeferredConfirm(m.exchange, m.routingKey, true, false, m.publishing)
	if err != nil {
		return err
	}
	if c.DeliveryTag != tag {
		return fmt.Errorf("the client counts message %d as %d", tag, c.DeliveryTag)
	}
	p.mu.Lock()
	f.deferred = c
	p.mu.Unlock()
	return nil
}

// settled is an answer.
type settled struct {
	*flight
	acked bool
}

// confirmed takes the confirmations that are there, in the order of their messages: a message that comes back does so
// before its confirmation, so all that have come back are looked at first.
func (p *publisher) confirmed(first amqp.Confirmation, out []settled) []settled {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, more := first, true; more; {
		p.comeBack()
		if f := p.flight[c.DeliveryTag]; f != nil {
			delete(p.flight, c.DeliveryTag)
			out = append(out, settled{f, c.Ack})
		}
		p.newest = max(p.newest, c.DeliveryTag)
		select {
		case c, more = <-p.confirms:
		default:
			more = false
		}
	}
	return out
}

// overtook takes confirmations that the client holds back because an earlier one is missing.
func (p *publisher) overtook(out []settled) []settled {
	p.mu.Lock()
	defer p.mu.Unlock()
	var done []uint64
	for tag, f := range p.flight {
		if f.deferred == nil {
			continue
		}
		select {
		case <-f.deferred.Done():
			if f.deferred.Acked() || !p.ch.IsClosed() { // the end of a channel looks like a refusal
				done = append(done, tag)
			}
		default:
		}
	}
	p.comeBack()
	for _, tag := range done {
		f := p.flight[tag]
		delete(p.flight, tag)
		out = append(out, settled{f, f.deferred.Acked()})
		p.newest = max(p.newest, tag)
	}
	return out
}

// comeBack notes the messages that no queue takes. The server does not name the delivery tag.
func (p *publisher) comeBack() {
	for {
		select {
		case r, ok := <-p.returns:
			if !ok {
				p.returns = nil
				return
			}
			p.match(&r)
		default:
			return
		}
	}
}

// match notes each message that it may be: if two of one id are in flight, both are sent again rather than none.
func (p *publisher) match(r *amqp.Return) {
	for _, f := range p.flight {
		if f.is(r) {
			f.returned = r
		}
	}
}

// is reports whether it is this message that has come back.
func (f *flight) is(r *amqp.Return) bool {
	m := f.message
	return r.Exchange == m.exchange && r.RoutingKey == m.routingKey && r.MessageId == m.publishing.MessageId &&
		r.CorrelationId == m.publishing.CorrelationId
}

// oldest is when the message was published that is without an answer for longest, and whether too many confirms have
// overtaken it.
func (p *publisher) oldest() (at time.Time, stuck bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for tag, f := range p.flight {
		if at.IsZero() || f.at.Before(at) {
			at = f.at
		}
		stuck = stuck || p.newest > tag+overtaken
	}
	return at, stuck
}
