package kafka

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// errAbandoned ends a connection that carries requests whose records were given up.
var errAbandoned = errors.New("what was sent is given up")

// Abandon gives up every record that is not known to be in the log: records open, queued and in flight, and the open
// transaction. Acked is not called for any of them any more; it may still be called for others, which were acknowledged
// before, until Drain has returned. Batches on the wire may still be written by the broker. With an owner a Begin must
// follow before the next Produce; batches under its epoch keep older ones out.
//
// It waits for the end of a request to the coordinator, but for no answer. No Produce may be running.
func (p *Producer) Abandon() sink.Dropped {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || !p.started {
		return sink.Dropped{}
	}
	p.dropped = sink.Dropped{}
	o := p.own
	if o == nil {
		p.forget()
		return p.dropped
	}
	o.abandoning, o.wanted = true, false
	if o.cancelStep != nil {
		o.cancelStep()
	}
	poke(o.wake)
	for o.abandoning && !p.over {
		_ = p.pause(context.Background()) // the end of Run ends it
	}
	return p.dropped
}

// forget is Abandon's work. With an owner it belongs to the goroutine of runOwner, so that no step is under way.
func (p *Producer) forget() {
	p.generation++
	p.flying = 0
	p.metrics.inFlight.Set(0)
	for _, b := range p.brokers {
		b.forgetFlying()
	}
	for _, t := range p.topics {
		for _, part := range t.partitions {
			p.clear(part)
		}
		if t.unplaced != nil {
			p.clear(t.unplaced)
			t.unplaced = nil
		}
		t.shrinkToFewer()
	}
	if p.tx != nil {
		if !p.tx.live.opened.IsZero() {
			p.metrics.transactions.WithLabelValues("aborted").Inc()
		}
		p.tx.clear()
	}
	p.ended = nil
	p.produced -= uint64(p.dropped.Records)
	if p.dropped.Records > 0 {
		p.log.Info("unacknowledged records are given up", zap.Int(logkey.Records, p.dropped.Records))
	}
	if o := p.own; o != nil {
		o.abandoning, o.failures = false, 0
		o.trouble.resolve(&p.troubles)
		o.answered = o.asked
	}
	if p.own.fences() {
		p.own.begun, p.own.identity, p.id = false, noIdentity, noIdentity
	} else if next, ok := p.id.bumped(); ok { // batches on the wire must not land after the next ones
		p.id = next
	} else {
		p.id = noIdentity
		poke(p.control.wake)
	}
	p.announce()
}

// forgetFlying cuts the connection where requests fly on it. The connection's writer may be busy with the batches, so
// their memory is left to the garbage collector.
func (b *broker) forgetFlying() {
	if len(b.inflight) == 0 {
		return
	}
	clear(b.inflight)
	b.inflight = nil
	if b.conn != nil {
		b.conn.cut(errAbandoned)
		b.conn = nil
	}
}

// clear empties the partition.
func (p *Producer) clear(part *partition) {
	part.unready()
	part.seal()
	dropped := &p.dropped
	for _, b := range part.inflight {
		count(dropped, b)
	}
	for _, batches := range [][]*batch{part.queued, part.held} {
		for _, b := range batches {
			count(dropped, b)
			b.free()
		}
		clear(batches)
	}
	clear(part.inflight)
	part.inflight, part.queued, part.held = part.inflight[:0], part.queued[:0], part.held[:0]
	part.pending, part.unanswered, part.attempt = 0, 0, 0
	part.filling, part.registered, part.entered = nil, nil, nil
	part.waiting = false
	delete(p.waiting, part)
	part.rewind() // forgets why it drained
	part.restart()
	part.trouble.resolve(&p.troubles)
}

func count(d *sink.Dropped, b *batch) {
	d.Records += int(b.records)
	d.Bytes += b.window
}

// clear forgets the transactions. The coordinator aborts the open transaction at the next Begin.
func (x *transactions) clear() {
	x.live = &transaction{}
	x.filling = x.live
	x.boundary, x.hurry, x.timer = false, false, false
}
