// Package publish publishes a few records with the connector's producer, and knows the outcome of each.
package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// Publisher is a producer of its own, beside the connector's. Its methods are for one goroutine.
type Publisher struct {
	producer *kafka.Producer
	stop     context.CancelFunc
	ended    chan error
	silence  func()

	mu     sync.Mutex
	since  time.Time // when the present records were begun with, zero for none
	ticket uint64
	acked  map[uint64]bool
}

// New starts a producer. The caller closes it.
func New(ctx context.Context, cfg kafka.Config, report progress.Reporter) (*Publisher, error) {
	p := &Publisher{ended: make(chan error, 1), acked: map[uint64]bool{}}
	cfg.Acked = p.onAck
	cfg.AwaitTopics = true // a record that was not taken is known not to be published
	var err error
	if p.producer, err = kafka.New(cfg); err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	go func() { p.ended <- p.producer.Run(run) }()
	p.silence = report.Wait(p.waits)
	return p, nil
}

// Close ends the producer. Records in flight are given up.
func (p *Publisher) Close() {
	p.silence()
	p.stop()
	<-p.ended
}

func (p *Publisher) onAck(d sink.Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range d.Tickets {
		p.acked[t] = true
	}
}

// Outcome is the result of publishing a record.
type Outcome struct {
	Err     error // why it was not published
	Unknown bool  // despite Err, it may be published
}

// Publish sends the records and waits for an outcome of each.
func (p *Publisher) Publish(ctx context.Context, records []*router.Record, timeout time.Duration) []Outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p.setSince(time.Now())
	defer p.setSince(time.Time{})
	out := make([]Outcome, len(records))
	tickets := make([]uint64, len(records))
	for i := range records {
		p.ticket++
		tickets[i] = p.ticket
	}
	drained := p.offer(ctx, records, tickets, out)
	again, had := backoff.NewExponentialBackOff(), 0
	for errors.Is(drained, sink.ErrSessionOver) {
		p.producer.Abandon()
		if drained = p.producer.Drain(ctx); drained != nil { // it reports what was acknowledged before
			break
		}
		if n := p.known(tickets, out); n > had { // each refused record ends a session, and has its outcome in the next
			had = n
			again.Reset()
		} else if !wire.SleepUntil(ctx, time.Now().Add(again.NextBackOff())) {
			break
		}
		drained = p.offer(ctx, records, tickets, out)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, t := range tickets {
		switch {
		case out[i].Err != nil: // nothing was taken
		case !p.acked[t]:
			out[i] = Outcome{Err: p.explain(drained), Unknown: true}
		}
		delete(p.acked, t)
	}
	return out
}

// offer produces the records that have no outcome yet, and waits for the acknowledgements.
func (p *Publisher) offer(ctx context.Context, records []*router.Record, tickets []uint64, out []Outcome) error {
	for i, rec := range records {
		if out[i].Err != nil || p.isAcked(tickets[i]) {
			continue
		}
		err := p.producer.Produce(ctx, rec, tickets[i])
		var refused *sink.RefusedError
		switch {
		case errors.Is(err, sink.ErrSessionOver):
			return err
		case err != nil && !errors.As(err, &refused):
			err = p.explain(err)
		}
		out[i].Err = err
	}
	return p.producer.Drain(ctx)
}

func (p *Publisher) isAcked(ticket uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acked[ticket]
}

// known is how many records have an outcome.
func (p *Publisher) known(tickets []uint64, out []Outcome) (n int) {
	for i, t := range tickets {
		if out[i].Err != nil || p.isAcked(t) {
			n++
		}
	}
	return n
}

func (p *Publisher) setSince(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = t
}

// waits is the reason why Kafka has not taken the records yet.
func (p *Publisher) waits() (string, time.Time) {
	p.mu.Lock()
	since := p.since
	p.mu.Unlock()
	if since.IsZero() {
		return "", since
	}
	for _, t := range p.producer.Trouble() {
		return t.Object + ": " + t.Sentence, since
	}
	return "Kafka to acknowledge", since
}

// explain names the producer's trouble, rather than the timeout that it caused.
func (p *Publisher) explain(err error) error {
	for _, t := range p.producer.Trouble() {
		return fmt.Errorf("%s %s", t.Wait().Sentence(), t.Wait().Remedy())
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("Kafka did not acknowledge within --timeout")
	}
	return err
}
