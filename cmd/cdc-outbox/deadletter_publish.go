package main

import (
	"github.com/cdc-outbox/cdc-outbox/internal/publish"

	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// publisher marks letters and publishes their records.
type publisher struct {
	*publish.Publisher
	attempt string
}

func (a *app) newPublisher(ctx context.Context, c *config.Loaded) (*publisher, error) {
	kc, err := wiring.Kafka(c)
	if err != nil {
		return nil, err
	}
	p, err := publish.New(ctx, kc, a.progress())
	return &publisher{Publisher: p, attempt: rand.Text()}, err
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
	for i, o := range p.Publish(ctx, records, timeout) {
		switch live[i].err = o.Err; {
		case o.Err == nil:
			published = append(published, live[i])
		case !o.Unknown:
			withdrawn = append(withdrawn, live[i])
		default:
			live[i].err = fmt.Errorf("%w; it may still have been published", o.Err)
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
	for i, o := range p.Publish(ctx, records, timeout) {
		if o.Err == nil {
			done = append(done, batch[i])
		} else if batch[i].err == nil {
			batch[i].err = o.Err
		}
	}
	return done
}
