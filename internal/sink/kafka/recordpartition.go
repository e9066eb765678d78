package kafka

import (
	"context"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// maxTopicNumber is the largest number of a topic that is kept.
const maxTopicNumber = 1 << 14

// topicOf returns the record's topic. Mostly it is the topic of the record before, or one that the router has a number
// for, which saves the search by name.
func (p *Producer) topicOf(rec *router.Record) *topic {
	if p.latest != nil && p.latest.name == rec.Topic {
		return p.latest
	}
	n := int(rec.TopicNumber)
	if n < len(p.numbered) && p.numbered[n] != nil && p.numbered[n].name == rec.Topic {
		p.latest = p.numbered[n]
		return p.latest
	}
	p.latest = p.topic(rec.Topic)
	if 0 < n && n <= maxTopicNumber {
		if n >= len(p.numbered) {
			p.numbered = append(p.numbered, make([]*topic, n+1-len(p.numbered))...)
		}
		p.numbered[n] = p.latest
	}
	return p.latest
}

// topic returns the topic, from now on in use.
func (p *Producer) topic(name string) *topic {
	t := p.topics[name]
	if t == nil {
		t = &topic{name: name, number: uint32(len(p.topics)), limit: p.cfg.MaxBatchBytes, shifts: unknownShifts}
		p.topics[name] = t
		p.control.wantTopics()
	}
	return t
}

// partitionFor returns the record's partition, nil for a record that joins the topic's unplaced queue.
func (p *Producer) partitionFor(ctx context.Context, t *topic, rec *router.Record) (*partition, error) {
	if t.ready() {
		if part := t.choose(rec.Partition, rec.Key); part != nil {
			return part, nil
		}
	}
	if err := t.nameRefused(p.cfg.pace.slow); err != nil {
		return nil, err
	}
	if t.defers(rec, &p.cfg, p.tx) {
		return nil, nil
	}
	return p.awaitPartition(ctx, t, rec)
}

// awaitPartition waits until the record's partition is known, or the record may join the topic's unplaced queue.
func (p *Producer) awaitPartition(ctx context.Context, t *topic, rec *router.Record) (*partition, error) {
	p.commit()
	t.waiters++
	defer func() { t.waiters-- }()
	for {
		if t.more > 0 && t.calm() {
			t.adopt(t.more)
			p.control.wantMetadata() // for the leaders of the new ones
		}
		if t.ready() {
			if part := t.choose(rec.Partition, rec.Key); part != nil {
				return part, nil
			}
			if err := p.refusePartition(t, rec); err != nil {
				return nil, err
			}
		}
		if err := t.nameRefused(p.cfg.pace.slow); err != nil {
			return nil, err
		}
		if t.defers(rec, &p.cfg, p.tx) {
			return nil, nil
		}
		if err := p.await(ctx); err != nil {
			return nil, err
		}
	}
}

// refusePartition returns a RefusedError for a record that names a partition that the topic does not have, by an answer
// of lately: partitions may have been added.
func (p *Producer) refusePartition(t *topic, rec *router.Record) error {
	if time.Since(t.seenAt) < p.cfg.pace.slow {
		return &sink.RefusedError{
			Topic: t.name, Reason: sink.NoPartition, Partition: rec.Partition, Partitions: len(t.partitions),
		}
	}
	p.control.wantMetadata()
	return nil
}
