package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/internal/failure"
)

// outcome is the result of processing a record.
type outcome int

const (
	unfinished outcome = iota // the assignment ended before the record was done
	handled
	buried
)

// process handles or dead-letters a record. It returns false if the assignment ended before the record was done.
func (p *partition) process(work, over context.Context, m Message, unnamed error) bool {
	switch {
	case unnamed != nil:
		return p.bury(work, over, letter{Message: m, reason: unnamed.Error(), class: NoID})
	case p.holds != nil && m.Key != nil:
		return p.inOrder(work, over, m)
	}
	return p.deal(work, over, m) != unfinished
}

// deal tries a record that has an id, and dead-letters it if that fails.
func (p *partition) deal(work, over context.Context, m Message) outcome {
	if p.recent.has(m.ID) {
		return handled
	}
	var ledger atomic.Bool
	attempts, err := p.try(inbox.Observe(work, func() { ledger.Store(true) }), over, m)
	switch {
	case err == nil:
		p.breaker = breaker{}
		if !ledger.Load() {
			p.recent.add(m.ID)
		}
		return handled
	case errors.Is(err, errOver):
		return unfinished
	}
	m.Attempt = attempts
	l := letter{Message: m, reason: err.Error(), class: classOf(err), attempts: attempts}
	if !p.bury(work, over, l) {
		return unfinished
	}
	if l.class == Exhausted {
		p.breaker.count(m, err)
	}
	return buried
}

// errOver reports that the assignment ended before the record was done.
var errOver = errors.New("consumer: the partition is being reassigned")

// try gives the record to the handler until it is done (nil), must be dead-lettered, or the assignment is over.
func (p *partition) try(work, over context.Context, m Message) (attempts int, err error) {
	o := &p.c.opts
	pauses := o.backOff()
	var spent time.Duration
	var before error
	for {
		m.Attempt++ // also if the attempt before does not count
		p.begins(m, before)
		began := time.Now()
		limit := max(o.Budget-spent, o.Budget/10) // enough for a claim, whose failure does not count
		err := p.c.call(work, []Message{m}, limit)
		if err == nil || errors.Is(err, inbox.ErrDuplicate) {
			return attempts + 1, nil
		}
		before = err
		took := time.Since(began)
		pause := pauses.NextBackOff()
		switch {
		case over.Err() != nil:
			return attempts, errOver // the next owner tries again
		case failure.IsPermanent(err):
			return attempts + 1, err
		case errors.Is(err, inbox.ErrContended):
			p.logger(m).Warn("the event is being handled elsewhere")
		case failure.IsUnavailable(err):
			p.waits(time.Now())
			p.logger(m).Warn("something that the handler needs is away, so the record waits", "error", err.Error())
		case p.unhealthy(work, m, err):
			p.waits(time.Now())
		default:
			p.waits(time.Time{})
			attempts++
			if spent += took + pause; attempts >= o.Attempts || spent >= o.Budget {
				if !p.breaker.open(m, err, o.Breaker) {
					return attempts, err
				}
				p.pauses(o.Breaker)
				p.logger(m).Error("the dead letters before this record have its cause, so the partition waits",
					"letters", o.Breaker, "error", err.Error())
				spent = 0
				break
			}
			p.logger(m).Warn("handling an event failed", "error", err.Error())
		}
		if sleep(over, pause); over.Err() != nil {
			return attempts, errOver
		}
	}
}

// unhealthy reports whether the record is not the cause of the failure.
func (p *partition) unhealthy(work context.Context, m Message, cause error) bool {
	if p.c.opts.Healthy == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(work, 5*time.Second)
	defer cancel()
	if p.c.opts.Healthy(ctx) == nil {
		return false
	}
	p.logger(m).Warn("the handler is not healthy, so the record waits", "error", cause.Error())
	return true
}

// call makes one attempt.
func (c *Consumer) call(ctx context.Context, ms []Message, limit time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx, ended := c.start(ctx, ms)
	defer func() {
		for _, end := range ended {
			end(err)
		}
	}()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
			c.opts.Logger.Error("the handler panicked",
				"id", ms[0].ID, "topic", ms[0].Topic, "records", len(ms), "stack", string(debug.Stack()))
		}
	}()
	return c.handle(ctx, ms)
}

// start calls the hook for each record. Of a batch each has its own trace, and none is the context of the handler.
func (c *Consumer) start(ctx context.Context, ms []Message) (of context.Context, ended []func(error)) {
	if c.opts.Start == nil {
		return ctx, nil
	}
	for _, m := range ms {
		one, end := c.opts.Start(ctx, m)
		if end != nil {
			ended = append(ended, end)
		}
		if of = ctx; len(ms) == 1 {
			of = one
		}
	}
	return of, ended
}

// logger returns the logger with the fields that identify a message.
func (p *partition) logger(m Message) *slog.Logger {
	return p.c.opts.Logger.With(
		"id", m.ID, "topic", m.Topic, "partition", m.Partition, "offset", m.Offset, "attempt", m.Attempt)
}
