package kafka

import (
	"context"
	"fmt"
	"time"
)

// runClock does the work that is due by time alone. Everything else happens in the goroutine that causes it.
func (p *Producer) runClock(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.clock:
		case <-timer.C:
		}
		p.mu.Lock()
		next := p.tick(time.Now())
		p.mu.Unlock()
		timer.Reset(time.Until(next))
	}
}

// clock wakes runClock.
type clock chan struct{} // capacity 1

func (c clock) wake() { poke(c) }

// tick does the due work and returns when to come back, within a second.
func (p *Producer) tick(now time.Time) time.Time {
	next := now.Add(time.Second)
	if p.produced == p.ticked || now.Sub(p.tickedAt) >= time.Second {
		p.flush() // a forgotten Flush, or one that does not come while there is much to read, may cost a second
		p.tickedAt = now
	}
	trimFree(now)
	p.troubles.tick(now)
	p.ticked = p.produced
	next = p.tickTransaction(now, next)
	p.own.tick(now, p.ended)
	for part := range p.waiting {
		if part.retryAt.After(now) {
			next = earlier(next, part.retryAt)
		} else {
			p.resume(part)
		}
	}
	for _, b := range p.brokers {
		next = earlier(next, p.tickBroker(b, now))
	}
	return next
}

func (p *Producer) tickBroker(b *broker, now time.Time) time.Time {
	next := now.Add(time.Second)
	if b.throttledUntil.After(now) {
		next = earlier(next, b.throttledUntil)
	} else if b.throttled {
		b.throttled = false
		p.pump(b)
	}
	if len(b.inflight) == 0 || b.conn == nil {
		return next
	}
	since := b.inflight[0].at
	if b.throttledUntil.After(since) {
		since = b.throttledUntil // until then the broker does not read later requests
	}
	if age := now.Sub(since); age > p.cfg.pace.slowAnswer {
		p.unacknowledged(b, age)
		p.control.wantMetadata() // maybe another broker leads its partitions by now
	}
	switch {
	case b.cutAt.IsZero():
	case b.cutAt.After(now):
		next = earlier(next, b.cutAt)
	case b.holdsMoved():
		b.conn.cut(fmt.Errorf("no answer from %s about partitions that moved to another broker", b.addr))
	default:
		b.cutAt = time.Time{}
	}
	return next
}

// holdsMoved reports whether a request in flight names a partition that another broker leads by now. Those wait for
// the answer, or for the end of the connection, before they go on there.
func (b *broker) holdsMoved() bool {
	for _, r := range b.inflight {
		for _, batch := range r.batches {
			if batch.part.broker != b {
				return true
			}
		}
	}
	return false
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(d time.Duration) time.Time { return time.Now().Add(d) }
