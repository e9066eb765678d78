package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// With acks=all a leader acknowledges what its followers in sync have. While one broker hangs, each leader of which it
// is a follower is as silent as itself, until it is out of sync (replica.lag.time.max.ms, 30 s). So a broker that
// acknowledges nothing is asked on a connection of its own, on which it answers at once if it only waits.

// silence is a time without an answer to a request that was written.
type silence struct {
	asked    bool // on another connection, and the result is known
	responds bool // the broker answered there
}

// waits reports whether the broker is known to wait only.
func (s *silence) waits() bool { return s != nil && s.responds }

// unacknowledged reports a broker that has acknowledged nothing for so long, once it is known whether it hangs.
func (p *Producer) unacknowledged(b *broker, age time.Duration) {
	c := b.conn
	if c.silence == nil {
		s := &silence{}
		c.silence = s
		p.wg.Go(func() { p.askWhetherItHangs(b.addr, s) })
	}
	if !c.silence.asked {
		return
	}
	object := "broker " + b.addr
	if c.silence.waits() {
		b.trouble.set(&p.troubles, sink.NotEnoughReplicas, object, fmt.Sprintf("The broker at %s answers, and has "+
			"acknowledged nothing for %s: it waits for a replica on another broker, or for its disk.", b.addr,
			human.Duration(age)),
			fault.Do("Look at the brokers whose replicas are not in sync. One that hangs is named besides.",
				p.cfg.Command("kafka-topics", "--describe --under-replicated-partitions")))
		return
	}
	silent := c.wire.Silent(age)
	b.trouble.set(&p.troubles, sink.BrokerUnreachable, object, wire.Sentences(object, silent), silent.Remedy())
}

// askWhetherItHangs opens another connection. It takes as long as an answer may, before it is called slow.
func (p *Producer) askWhetherItHangs(addr string, s *silence) {
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.pace.slowAnswer)
	defer cancel()
	w, err := wire.Dial(ctx, &p.cfg.Cluster, addr)
	if err == nil {
		_ = w.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.asked, s.responds = true, err == nil
	p.clock.wake()
}
