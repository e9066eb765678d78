package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// publisher is the connector's producer, for a few records of which it is known one by one what became of them.
type publisher struct {
	producer *kafka.Producer
	attempt  string
	stop     context.CancelFunc
	ended    chan error
	silence  func()

	mu      sync.Mutex
	since   time.Time // when the present records were begun with, zero for none
	ticket  uint64
	acked   map[uint64]bool
	refused map[uint64]error
}

func (a *app) newPublisher(ctx context.Context, c *config.Loaded) (*publisher, error) {
	kc, err := wiring.Kafka(c)
	if err != nil {
		return nil, err
	}
	p := &publisher{attempt: rand.Text(), ended: make(chan error, 1), acked: map[uint64]bool{}, refused: map[uint64]error{}}
	kc.Acked, kc.Refused = p.onAck, p.onRefusal
	if p.producer, err = kafka.New(kc); err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	go func() { p.ended <- p.producer.Run(run) }()
	p.silence = a.watch(p.waits)
	return p, nil
}

func (p *publisher) close() {
	p.silence()
	p.stop()
	<-p.ended
}

func (p *publisher) onAck(d kafka.Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range d.Tickets {
		p.acked[t] = true
	}
}

// onRefusal drops the record, which stays a dead letter.
func (p *publisher) onRefusal(r kafka.Refusal) kafka.Resolution {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[r.Ticket] = fmt.Errorf("topic %q refuses the record of %d bytes (%s)", r.Topic, r.Bytes, r.Reason)
	return kafka.Resolution{Action: kafka.Drop}
}

// outcome is what became of a record. Unless it is published, unknown says that it may be all the same.
type outcome struct {
	err     error
	unknown bool
}

// publish sends the records and waits.
func (p *publisher) publish(ctx context.Context, records []*router.Record, timeout time.Duration) []outcome {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p.setSince(time.Now())
	defer p.setSince(time.Time{})
	out := make([]outcome, len(records))
	tickets := make([]uint64, len(records))
	for i, rec := range records {
		p.ticket++
		tickets[i] = p.ticket
		out[i].err = p.producer.Produce(ctx, rec, p.ticket)
		var refused *kafka.RefusedError
		if out[i].err != nil && !errors.As(out[i].err, &refused) {
			out[i].err = p.explain(out[i].err)
		}
	}
	drained := p.producer.Drain(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, t := range tickets {
		switch {
		case out[i].err != nil: // nothing was taken
		case p.refused[t] != nil:
			out[i].err = p.refused[t]
		case !p.acked[t]:
			out[i] = outcome{err: p.explain(drained), unknown: true}
		}
		delete(p.acked, t)
		delete(p.refused, t)
	}
	return out
}

func (p *publisher) setSince(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = t
}

// waits is what Kafka lacks to take the records, empty while it may only be slow.
func (p *publisher) waits() string {
	p.mu.Lock()
	since := p.since
	p.mu.Unlock()
	if since.IsZero() || time.Since(since) < patience {
		return ""
	}
	for _, t := range p.producer.Trouble() {
		return t.Object + ": " + t.Sentence
	}
	return "Kafka to acknowledge"
}

// explain names what Kafka lacks, rather than the time that ran out over it.
func (p *publisher) explain(err error) error {
	for _, t := range p.producer.Trouble() {
		return fmt.Errorf("%s %s", t.Wait().Sentence(), t.Remedy)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("Kafka did not acknowledge within --timeout")
	}
	return err
}

// retry publishes the batch's records between marks. First each letter's mark: begun; whoever else retries the same letter sees
// it. Then, if nobody was first, the record, then the mark that says how it ended. A crash in between leaves a letter whose
// retry began: nobody can say whether its record is in Kafka, and nothing publishes it again unasked.
func (p *publisher) retry(ctx context.Context, b *letterBox, batch []*retrial, timeout time.Duration) error {
	live := p.mark(ctx, b, ready(batch), deadletter.Begun, timeout)
	if len(live) == 0 {
		return nil
	}
	if err := p.awaitMarks(ctx, b, live, timeout); err != nil {
		p.mark(context.WithoutCancel(ctx), b, live, deadletter.Withdrawn, timeout)
		return err
	}
	var withdrawn, published []*retrial
	for _, r := range live {
		switch {
		case !r.entry.Knows(p.attempt):
			r.err = errors.New("the mark of this retry cannot be read yet, because a transaction is open in the dead-letter topic; try again")
		case r.entry.Rival(p.attempt, r.known):
			r.err = errors.New("somebody else is retrying it")
		default:
			continue
		}
		withdrawn = append(withdrawn, r)
	}
	live = ready(live)
	records := make([]*router.Record, len(live))
	for i, r := range live {
		records[i] = r.record
	}
	for i, o := range p.publish(ctx, records, timeout) {
		switch live[i].err = o.err; {
		case o.err == nil:
			published = append(published, live[i])
		case !o.unknown:
			withdrawn = append(withdrawn, live[i])
		default:
			live[i].err = fmt.Errorf("%w; it may still have been published", o.err)
		}
	}
	// What is published must be remembered, also when somebody has pressed Ctrl-C meanwhile.
	ctx = context.WithoutCancel(ctx)
	p.mark(ctx, b, withdrawn, deadletter.Withdrawn, timeout)
	p.mark(ctx, b, published, deadletter.Published, timeout)
	for _, r := range published {
		if r.err != nil {
			r.err = fmt.Errorf("the record is published, but the dead-letter topic did not take the mark that says so: %w", r.err)
		}
	}
	return nil
}

// awaitMarks reads up to the batch's own marks. A connector with exactly-once delivery may have a transaction open in the
// topic, and what lies behind its begin is not read before its end.
func (p *publisher) awaitMarks(ctx context.Context, b *letterBox, batch []*retrial, timeout time.Duration) error {
	for until := time.Now().Add(timeout); ; {
		if err := b.refresh(ctx); err != nil {
			return err
		}
		if !slices.ContainsFunc(batch, func(r *retrial) bool { return !r.entry.Knows(p.attempt) }) || time.Now().After(until) {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func ready(batch []*retrial) []*retrial {
	var out []*retrial
	for _, r := range batch {
		if r.err == nil {
			out = append(out, r)
		}
	}
	return out
}

// mark writes a mark for each letter and returns those for which it is in the topic. A retrial keeps the first error it had.
func (p *publisher) mark(ctx context.Context, b *letterBox, batch []*retrial, mark deadletter.Mark, timeout time.Duration) []*retrial {
	records := make([]*router.Record, len(batch))
	for i, r := range batch {
		records[i] = r.entry.MarkRecord(b.topic, p.attempt, mark, time.Now())
	}
	var done []*retrial
	for i, o := range p.publish(ctx, records, timeout) {
		if o.err == nil {
			done = append(done, batch[i])
		} else if batch[i].err == nil {
			batch[i].err = o.err
		}
	}
	return done
}
