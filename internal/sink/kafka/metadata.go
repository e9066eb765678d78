package kafka

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/protocol/metadata"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// namesToAsk returns the topics that wait for an answer, and all topics when something has happened to a broker or
// nothing was asked for MetadataInterval. So the cost of a missing topic does not grow with the others. Requests from
// here on ask for a newer answer.
func (c *control) namesToAsk(topics topics, now time.Time) []string {
	all := c.everything || !now.Before(c.allAt)
	names := make([]string, 0, len(topics))
	for name, t := range topics {
		if all || t.leaderless() || t.more+t.fewerSeen > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if all {
		c.everything, c.allAt = false, now.Add(c.interval)
	}
	c.metaAt, c.metaLast = c.allAt, now
	return names
}

// refreshMetadata asks for the partitions and leaders of the topics in use, and for the limits of new
// topics, so that the first batch already fits.
func (p *Producer) refreshMetadata(w *wire.Conn) error {
	p.mu.Lock()
	names, refresh := p.control.namesToAsk(p.topics, time.Now()), p.control.refresh
	p.mu.Unlock()
	if len(names) == 0 {
		return nil // no names would mean all topics of the cluster
	}
	res, err := w.RoundTrip(&metadata.Request{TopicNames: names}, p.control.timeout)
	if err != nil {
		return err
	}
	answer := res.(*metadata.Response)
	limits, err := p.describe(w, answer)
	if err != nil {
		return err
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.applyBrokers(answer.Brokers)
	p.control.controller = wire.ControllerOf(answer)
	for i := range answer.Topics {
		if t := p.topics[answer.Topics[i].Name]; t != nil {
			if limit, ok := limits[t.name]; ok {
				t.limit, t.described = min(p.cfg.MaxBatchBytes, limit), true
			}
			t.stale = t.stale && !p.control.freshens(refresh, &answer.Topics[i])
			p.applyTopic(t, &answer.Topics[i])
		}
	}
	p.inUse.Store(p.topics.partitions())
	for _, b := range p.brokers {
		p.pump(b)
	}
	p.announce()
	p.control.plan(w, p.topics.lackLeader())
	return nil
}

// freshens reports whether an answer is what Refresh has records wait for. A broker that has just started may not know
// the topic yet. For a topic that was deleted, nothing waits longer than such a broker may take.
func (c *control) freshens(refresh int, answer *metadata.ResponseTopic) bool {
	return refresh == c.refresh &&
		(len(answer.Partitions) > 0 || time.Since(c.refreshAt) >= c.pace.settling)
}

// Partitions is the number of partitions of the topics in use, as of the last answer about them. Topics that were
// deleted do not count.
func (p *Producer) Partitions() int64 { return p.inUse.Load() }

func (all topics) partitions() (n int64) {
	for _, t := range all {
		if !t.absent {
			n += int64(len(t.partitions))
		}
	}
	return n
}

// plan looks again soon while something has no leader. A broker that is cut off from its cluster may answer
// the same for ever, so every few fruitless answers another broker is asked.
func (c *control) plan(w *wire.Conn, leaderless bool) {
	if !leaderless {
		c.fruitless = 0
		return
	}
	c.lookAgain()
	if c.fruitless++; c.fruitless%5 == 0 {
		_ = w.Close()
		c.wire = nil
		c.turn++
	}
}

// lookAgain asks for metadata a little later: something that an operator may create is missing.
func (c *control) lookAgain() {
	c.metaAt = earlier(c.metaAt, later(c.pace.topicLookup))
	poke(c.wake)
}

// lackLeader reports whether a topic or partition waits for metadata to change.
func (all topics) lackLeader() bool {
	for _, t := range all {
		if t.leaderless() {
			return true
		}
	}
	return false
}

// errRetired ends the connection to a broker that is not one of the cluster's any more. What it held goes elsewhere.
var errRetired = errors.New("the broker has left the cluster or changed its address")

// applyBrokers retires brokers that left the cluster or changed their address.
func (p *Producer) applyBrokers(brokers []metadata.ResponseBroker) {
	addrs := make(map[int32]string, len(brokers))
	for i := range brokers {
		b := &brokers[i]
		addrs[b.NodeID] = wire.BrokerAddr(b.Host, b.Port)
	}
	for id, b := range p.brokers {
		if addr, ok := addrs[id]; !ok || addr != b.addr {
			p.log.Info("broker left", zap.String(logkey.Broker, b.addr), zap.Int32(logkey.Node, id))
			b.cancel(errRetired)
			b.trouble.resolve(&p.troubles)
			delete(p.brokers, id)
			p.abandon(b)
		}
	}
	p.control.addrs = addrs
	p.own.retire(addrs)
}

// abandon takes the leadership of a retired broker's partitions away.
func (p *Producer) abandon(b *broker) {
	for _, t := range p.topics {
		for _, part := range t.partitions {
			if part.broker == b {
				p.lead(part, nil, part.leaderEpoch)
			}
		}
	}
}

// leader returns the broker with the id, with a goroutine that serves it, or nil where there is none.
func (p *Producer) leader(id int32) *broker {
	if b := p.brokers[id]; b != nil {
		return b
	}
	addr, ok := p.control.addrs[id]
	if !ok || p.ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithCancelCause(p.ctx)
	b := &broker{id: id, addr: addr, cancel: cancel, wanted: make(chan struct{}, 1)}
	p.brokers[id] = b
	p.wg.Go(func() { p.serve(ctx, b) })
	return b
}

// applyTopic brings partitions and leaders in line with an answer.
func (p *Producer) applyTopic(t *topic, answer *metadata.ResponseTopic) {
	if v := wire.VerdictOf(answer.ErrorCode); v.Action != wire.Done && len(answer.Partitions) == 0 {
		t.absent = v.Code == wire.UnknownTopic
		switch {
		case v.Code == wire.UnknownTopic && !t.wantedNow():
			t.trouble.resolve(&p.troubles) // it was deleted, and nothing waits for it
		case v.Code != wire.UnknownTopic || !t.wantCreation(&p.cfg):
			t.report(&p.cfg, &p.troubles, v)
		}
		for _, part := range t.partitions {
			p.lead(part, nil, part.leaderEpoch)
		}
		return
	}
	t.creation, t.refusedName, t.seenAt, t.absent = creation{}, refusedName{}, time.Now(), false
	t.forgetRefusals(t.seenAt)
	t.trouble.resolve(&p.troubles)

	switch n := len(answer.Partitions); {
	case len(t.partitions) == 0:
		t.adopt(n)
	case n > len(t.partitions):
		t.grow(&p.cfg, n)
	case n < len(t.partitions):
		p.shrink(t, n)
	}
	if len(answer.Partitions) >= len(t.partitions) {
		t.fewerSeen = 0
	}
	p.applyLeaders(t, answer.Partitions)
	p.placeAll(t)
}

// applyLeaders brings the leaders of the topic's partitions in line with an answer.
func (p *Producer) applyLeaders(t *topic, answer []metadata.ResponsePartition) {
	for i := range answer {
		ap := &answer[i]
		if ap.PartitionIndex < 0 || int(ap.PartitionIndex) >= len(t.partitions) {
			continue
		}
		part := t.partitions[ap.PartitionIndex]
		p.lead(part, p.leader(ap.LeaderID), ap.LeaderEpoch)
		if part.broker == nil && part.pending > 0 {
			p.report(part, wire.VerdictOf(wire.LeaderNotAvailable))
		}
	}
}

// lead makes b the leader of the partition, nil for none. Batches in flight to the old leader are waited for first, so
// that no copy of it can be written after something newer.
func (p *Producer) lead(part *partition, b *broker, epoch int32) {
	if part.broker == b && part.leaderEpoch == epoch {
		return
	}
	part.unready()
	if old := part.broker; old != b {
		if part.unanswered > 0 {
			part.drain(leaderMoved)
			if old != nil {
				old.cutAt = later(p.cfg.pace.moveGrace)
				p.clock.wake()
			}
		} else {
			part.state = probing
		}
	}
	part.broker, part.leaderEpoch = b, epoch
	if b == nil {
		return
	}
	if part.waiting {
		p.resume(part) // whatever the old leader said, ask the new one
		return
	}
	part.refresh()
	p.pump(b)
}
