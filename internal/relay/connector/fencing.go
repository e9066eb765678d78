package connector

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// covered is how far an earlier instance has committed the rows to Kafka, if one has.
type covered struct {
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

// fence makes Kafka take records from this instance only, now that the stream has the slot.
//
// At the first stream, and at each that follows a loss, it raises the epoch above all others. An instance may be
// suspended between getting the slot and raising the epoch, and not know that it has lost the slot since. So it asks
// the server afterwards: while its session still holds the slot, each later holder raises the epoch after it.
//
// After a stream that only broke it asks Kafka whether its epoch is still the highest, which disturbs nothing: another
// instance may have had the slot in between without having moved it.
//
// Only then may the stream confirm anything. Rows acknowledged before an interruption may be followed in Kafka by an
// earlier part of them, which another instance has sent before it died: the slot has to stay where it is.
func (r *reader) fence(s stream) error {
	err := r.takeOver(s)
	if err == nil && !r.expected.pending {
		s.Confirm()
	}
	return err
}

func (r *reader) takeOver(s stream) error {
	c := r.c
	c.mu.Lock()
	id := c.identity
	c.mu.Unlock()
	r.timeline, r.pid = id.Timeline, id.BackendPID
	if c.cfg.Standbys != nil {
		c.cfg.Standbys.Follow(id.BackendPID)
	}
	c.setFencing(true)
	defer c.setFencing(false)
	ctx, cancel := r.whileOpen(s)
	defer cancel()
	if r.begun {
		err := c.producer.Keep(ctx)
		if err == nil {
			err = r.compareAgain(ctx, s, id)
		}
		r.expectLast(id)
		return r.ended(s, err)
	}
	c.giveUp() // an epoch of an attempt that came to nothing
	r.reportBranch(ctx, s)
	stored, found, err := r.begin(ctx, s, id)
	if err != nil {
		r.lost = true
		return r.ended(s, err)
	}
	r.begun, r.lost, r.covered, r.expected = true, false, covered{}, expected{}
	if found && stored.Commit > 0 {
		return r.adopt(id, stored)
	}
	return nil
}

// begin takes the epoch. An instance on a copy of the database refuses itself when it compares the server with what
// Kafka keeps; so it compares before it raises the epoch, which would end its twin's tenure, and again afterwards:
// until then another instance may have published, and its position counts then.
func (r *reader) begin(ctx context.Context, s stream, id replication.Identity) (sink.Stored, bool, error) {
	c := r.c
	owner := sink.Owner{ID: c.group(id.SystemID), SystemID: id.SystemID}
	stored, found, err := c.producer.Latest(ctx, owner)
	if errors.Is(err, sink.ErrNotAllowed) {
		err = nil // nothing is kept there, see keeper.NotAllowed
	}
	if err == nil {
		err = r.compareWith(ctx, s, id, stored)
	}
	if err == nil {
		stored, found, err = c.producer.Begin(ctx, owner)
	}
	if err == nil {
		err = s.Holds(ctx)
	}
	if err == nil {
		err = r.compare(ctx, s, id, stored)
	}
	return stored, found, err
}

// whileOpen is a context that ends with the stream, and when the process is asked to stop.
func (r *reader) whileOpen(s stream) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.c.life)
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-r.c.stopping:
		case <-s.Broken():
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, func() { cancel(); <-over }
}

// ended judges the end of a wait for Kafka.
func (r *reader) ended(s stream, err error) error {
	switch {
	case err == nil || !errors.Is(err, context.Canceled) || r.c.life.Err() != nil:
		return err
	case r.c.isStopping():
		return errStopping
	}
	_, err = s.Receive()
	return err
}

// adopt applies the stored position to this stream.
func (r *reader) adopt(id replication.Identity, stored sink.Stored) error {
	pos := stored.Position.Position
	fields := []zap.Field{
		zap.String(logkey.Slot, r.c.cfg.Replication.Slot), zap.Stringer(logkey.Position, pos),
		zap.String(logkey.Confirmed, r.tracker.Confirmed().String()), zap.Int32(logkey.Timeline, stored.Timeline),
	}
	switch {
	case pos.Commit < r.tracker.Confirmed() && (stored.XID != 0 || stored.Timeline != id.Timeline):
		// The slot is past it: nothing that it covers is sent again.
	case stored.Timeline != id.Timeline:
		r.c.log.Error("position stored in Kafka is of another timeline and beyond the slot's; ignoring it, events "+
			"may be published twice", fields...)
	case pos.Commit >= id.WALEnd:
		r.c.log.Error("position stored in Kafka is beyond the end of the WAL (restored backup?); ignoring it, "+
			"events may be published twice", fields...)
	default:
		r.covered.any, r.covered.upTo, r.covered.timeline = true, pos, stored.Timeline
		r.expectStored(stored.Position)
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
	if t := c.producer.Trouble(); len(t) > 0 {
		why += ": " + t[0].Wait().Sentence()
	}
	return why
}
