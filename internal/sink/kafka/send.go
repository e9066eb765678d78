package kafka

import "time"

// idleFraction of a full request is sent by an idle connection without a Flush. The caller has more to come, it would
// have called Flush otherwise, so a request can wait until it is worth its cost: one of hundreds of kilobytes wakes as
// many goroutines as one of a few. Records that a transaction has not sent when it ends delay its commit, so there it
// is less.
const (
	idleFraction            = 2
	idleFractionTransaction = 8
)

// fewInFlight is how many requests fly while the ready partitions have less than smallBatch each on average. They keep
// the broker busy; the rest of the records gather meanwhile, because a batch costs the broker and us as much as some
// kilobytes do.
const fewInFlight = 2

// pump sends the batches that the sending rule allows on the broker's connection. It is Nagle's rule: when nothing
// flies, what is there goes at once; while a request flies, the rest piles up until the answer comes or a full request
// is there. So at low load a record leaves the moment Flush is called, and under load requests grow automatically;
// there is no linger time to tune.
func (p *Producer) pump(b *broker) {
	for b.conn != nil && len(b.inflight) < maxInFlight && p.sending() &&
		b.due(p.cfg.MaxRequestBytes, p.cfg.idle(len(p.brokers)), p.flushed || p.tx.ends()) {
		now := time.Now()
		if now.Before(b.throttledUntil) || p.own.outdated(now) {
			return // tick pumps when the pause is over, adopt when there is a new epoch
		}
		r := p.collect(b)
		b.inflight = append(b.inflight, r)
		p.flying++
		p.metrics.inFlight.Inc()
		b.conn.send <- r
	}
}

// sending reports whether there is a producer id to send with and the session is not over.
func (p *Producer) sending() bool {
	return p.id.valid() && p.ended == nil && (p.own == nil || p.own.begun)
}

// idle is how much an idle connection sends without a Flush. The records in memory are spread over the brokers.
func (c *Config) idle(brokers int) int {
	if c.Transactions != nil {
		return c.MaxRequestBytes / idleFractionTransaction
	}
	return c.MaxRequestBytes / (idleFraction * max(brokers, 1))
}

// due applies the sending rule.
func (b *broker) due(full, idle int, flushed bool) bool {
	switch {
	case b.readyBytes == 0:
		return false
	case b.readyBytes >= full && (len(b.inflight) < fewInFlight || b.readyBytes >= b.ready.n*min(smallBatch, full)):
		return true
	case len(b.inflight) > 0:
		return false
	default:
		return flushed || b.readyBytes >= idle
	}
}

// maxPassedOver is how many heads that do not fit any more collect passes over.
const maxPassedOver = 16

// collect makes a request of the heads of the ready partitions, at least one, as many as fit. The partition that was
// ready first is first: none starves, and where thousands have a little each, each gets the longest time to gather
// more, so that batches are as large as they can be for the records in memory.
func (p *Producer) collect(b *broker) *request {
	picked := p.picked[:0]
	size, passed := 0, 0
	for part := b.ready.first; part != nil && passed < maxPassedOver; part = part.next {
		n := part.head().size()
		if len(picked) > 0 && size+n > p.cfg.MaxRequestBytes {
			passed++
			continue
		}
		picked = append(picked, part)
		size += n
	}

	now := time.Now()
	r := &request{batches: make([]*batch, 0, len(picked)), at: now, generation: p.generation}
	for _, part := range picked {
		part.unready()
		if len(part.inflight) == 0 && now.Sub(part.lastAck) > p.cfg.pace.probeAfter {
			part.state = probing // the broker may have forgotten the producer meanwhile
		}
		part.freshen(now, &p.cfg)
		r.batches = append(r.batches, part.take(p.id))
		part.refresh()
	}
	if p.tx != nil {
		r.transactionalID = p.tx.owner.ID
	}
	r.arrange()
	p.picked = picked
	return r
}
