package connector

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// covered is up to where an earlier instance, or nobody, has committed the rows to Kafka.
type covered struct {
	begun    bool
	any      bool
	upTo     offsets.Position
	timeline int32
}

// holds reports whether the row is in Kafka already. Positions of another timeline say nothing: the log may have gone
// on differently from there, and a row that is skipped wrongly is lost.
func (v *covered) holds(pos offsets.Position, timeline int32) bool {
	return v.any && v.timeline == timeline && pos.Compare(v.upTo) <= 0
}

var errStopping = errors.New("stopping")

// begin takes the transactional id over, once in the life of the process: the slot is ours from here on, and whoever
// had both before is fenced. Were it done again after a reconnect, a process that slept while another one took over
// would fence that one; as it is, Kafka refuses the sleeper.
func (c *Connector) begin(t *offsets.Tracker) error {
	c.mu.Lock()
	id := c.identity
	c.mu.Unlock()
	r := &c.reader
	r.timeline = id.Timeline
	if r.covered.begun {
		return nil
	}
	if c.cfg.Kafka.Transactions == nil {
		r.covered.begun = true
		return nil
	}
	c.setClaiming(true)
	defer c.setClaiming(false)
	ctx, cancel := context.WithCancel(c.life)
	defer cancel()
	over := make(chan struct{})
	defer func() { <-over }()
	defer cancel()
	go func() {
		defer close(over)
		select {
		case <-c.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	stored, found, err := c.producer.Begin(ctx, kafka.Claim{
		Name: kafka.ClaimName(id.SystemID, c.cfg.Replication.Slot), SystemID: id.SystemID,
	})
	switch {
	case err != nil && c.isStopping() && c.life.Err() == nil:
		return errStopping
	case err != nil:
		return err
	}
	r.covered.begun = true
	if found {
		return c.adopt(t, id, stored)
	}
	return nil
}

// adopt decides what the stored position means for this stream.
func (c *Connector) adopt(t *offsets.Tracker, id replication.Identity, stored kafka.Stored) error {
	pos := offsets.Position{Commit: offsets.LSN(stored.Commit), Index: stored.Index}
	fields := []zap.Field{
		zap.String(telemetry.KeySlot, c.cfg.Replication.Slot), zap.Stringer(telemetry.KeyPosition, pos),
		zap.String(telemetry.KeyConfirmed, t.Confirmed().String()), zap.Int32(telemetry.KeyTimeline, stored.Timeline),
	}
	switch {
	case stored.SystemID != id.SystemID:
		return &fault.Error{
			Kind: fault.Operator, Object: fmt.Sprintf("slot %q", c.cfg.Replication.Slot), At: pos.String(),
			Err:  fmt.Errorf("the position kept in Kafka is of another Postgres cluster, system identifier %s, not %s", stored.SystemID, id.SystemID),
			Next: "Find out what else writes to the consumer group named after the slot.",
		}
	case stored.Timeline != id.Timeline && pos.Commit < t.Confirmed():
		// The slot is past it: nothing that it covers comes again.
	case stored.Timeline != id.Timeline:
		c.log.Error("The position kept in Kafka is of another timeline and lies beyond the slot's; it is not used, and events may come twice", fields...)
	case pos.Commit >= id.WALEnd:
		c.log.Error("The position kept in Kafka lies beyond the end of the server's log, which was restored from an older copy; it is not used, and what that copy repeats comes again", fields...)
	default:
		c.reader.covered.any, c.reader.covered.upTo, c.reader.covered.timeline = true, pos, stored.Timeline
		c.log.Info("Events up to the position kept in Kafka are not published again", fields...)
	}
	return nil
}

// cover acknowledges a row that is in Kafka already.
func (c *Connector) cover(t *offsets.Tracker, ticket offsets.Ticket) error {
	c.counts.covered.Add(1)
	if err := t.Ack([]offsets.Ticket{ticket}, nil); err != nil {
		return c.disorder(err)
	}
	return nil
}

func (c *Connector) setClaiming(is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claiming = is
}

func (c *Connector) claimReason() string {
	why := "waiting for Kafka to hand over the transactional id"
	if t := c.troubles(); len(t) > 0 {
		why += ": " + t[0].Wait().Sentence()
	}
	return why
}
