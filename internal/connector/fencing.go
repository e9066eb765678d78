package connector

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/logkey"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// covered is how far an earlier instance has committed the rows to Kafka, where one has.
type covered struct {
	fenced   bool // the earlier instance cannot produce any more
	any      bool
	upTo     offsets.Position
	timeline int32
}

// holds reports whether the row is in Kafka already. Positions of another timeline say nothing: the log may have
// continued differently from there, and a row that is skipped wrongly is lost.
func (v *covered) holds(pos offsets.Position, timeline int32) bool {
	return v.any && v.timeline == timeline && pos.Compare(v.upTo) <= 0
}

var errStopping = errors.New("stopping")

// fence raises the producer epoch against the instance that had the slot before, once in the life of the process: the
// slot is ours from here on. If it were repeated after a reconnect, a process that had been suspended while another one
// took over would fence its successor; as it is, Kafka refuses the suspended process.
func (r *reader) fence() error {
	r.c.mu.Lock()
	id := r.c.identity
	r.c.mu.Unlock()
	r.timeline = id.Timeline
	if r.covered.fenced {
		return nil
	}
	if r.c.cfg.Kafka.Transactions == nil {
		r.covered.fenced = true
		return nil
	}
	r.c.setFencing(true)
	defer r.c.setFencing(false)
	ctx, cancel := context.WithCancel(r.c.life)
	defer cancel()
	over := make(chan struct{})
	defer func() { <-over }()
	defer cancel()
	go func() {
		defer close(over)
		select {
		case <-r.c.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	stored, found, err := r.c.producer.Begin(ctx, kafka.Owner{
		TransactionalID: kafka.TransactionalID(id.SystemID, r.c.cfg.Replication.Slot), SystemID: id.SystemID,
	})
	switch {
	case err != nil && r.c.isStopping() && r.c.life.Err() == nil:
		return errStopping
	case err != nil:
		return err
	}
	r.covered.fenced = true
	if found {
		return r.adopt(id, stored)
	}
	return nil
}

// adopt decides what the stored position means for this stream.
func (r *reader) adopt(id replication.Identity, stored kafka.Stored) error {
	pos := stored.Position.Position
	fields := []zap.Field{
		zap.String(logkey.Slot, r.c.cfg.Replication.Slot), zap.Stringer(logkey.Position, pos),
		zap.String(logkey.Confirmed, r.tracker.Confirmed().String()), zap.Int32(logkey.Timeline, stored.Timeline),
	}
	switch {
	case stored.SystemID != id.SystemID:
		return &fault.Error{
			Kind: fault.Operator, Object: r.c.slot(), At: pos.String(),
			Err: fmt.Errorf("the position stored in Kafka is of another Postgres cluster, system identifier "+
				"%s, not %s", stored.SystemID, id.SystemID),
			Next: "Find out what else writes to the consumer group named after the slot.",
		}
	case stored.Timeline != id.Timeline && pos.Commit < r.tracker.Confirmed():
		// The slot is past it: nothing that it covers is sent again.
	case stored.Timeline != id.Timeline:
		r.c.log.Error("position stored in Kafka is of another timeline and beyond the slot's; ignoring it, events "+
			"may be published twice", fields...)
	case pos.Commit >= id.WALEnd:
		r.c.log.Error("position stored in Kafka is beyond the end of the WAL (restored backup?); ignoring it, "+
			"events may be published twice", fields...)
	default:
		r.covered.any, r.covered.upTo, r.covered.timeline = true, pos, stored.Timeline
		r.c.log.Info("events up to the position stored in Kafka are not published again", fields...)
	}
	return nil
}

// cover acknowledges a row that is in Kafka already.
func (r *reader) cover(ticket offsets.Ticket) error {
	r.c.counts.covered.Add(1)
	if err := r.tracker.Ack([]offsets.Ticket{ticket}, nil); err != nil {
		return r.disorder(err)
	}
	return nil
}

func (c *Connector) setFencing(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fencing = is
}

func (c *Connector) fencingReason() string {
	why := "waiting for Kafka to hand over the transactional id"
	if t := c.troubles(); len(t) > 0 {
		why += ": " + t[0].Wait().Sentence()
	}
	return why
}
