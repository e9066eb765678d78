package connector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// reader is the state of the goroutine that consumes the stream. It outlives the streams, and only that goroutine
// touches it.
type reader struct {
	commit     offsets.LSN // of the open transaction
	commitTime time.Time
	xid        uint32      // of the open transaction
	position   []byte      // scratch for the position header
	produced   offsets.LSN // the transaction of the last row produced, 0 behind its end

	relation *pgoutput.Relation // of the last row
	foreign  bool               // it is no outbox

	halted   *offsets.Position // the row that the reader stands at
	timeline int32             // of the stream
	covered  covered

	message  pgoutput.Message // a logical message as a row
	existing bool             // the row at hand is one that was there before the slot
	sent     int64            // number of the last of those that was handed to the producer
	changes  [3]warnings      // of updates, deletes and truncates

	warned map[uint32]bool // of which foreign tables, by OID, the log has told
}

// consume relays one stream until it breaks; nil means that a graceful stop is over.
func (c *Connector) consume(s stream) error {
	c.setStream(s)
	defer c.setStream(nil)
	t := c.tracker.Load()
	t.Resume()
	switch err := c.begin(t); {
	case errors.Is(err, errStopping):
		return c.finish(s)
	case err != nil:
		return err
	}
	switch err := c.publishExisting(s, t); {
	case errors.Is(err, errStopping):
		return c.finish(s)
	case errors.Is(err, errHalted):
		if err := c.awaitStop(s); err != nil || c.isStopping() {
			return err
		}
	case err != nil:
		return err
	}
	for {
		if c.isStopping() && !t.Open() {
			return c.finish(s)
		}
		if !s.Buffered() {
			c.producer.Flush()
		}
		m, err := s.Receive()
		switch {
		case errors.Is(err, replication.ErrInterrupted):
			continue
		case err != nil:
			// What was handed over goes on its way while the next stream is being opened.
			c.producer.Flush()
			return err
		}
		switch err := c.handle(t, m); {
		case errors.Is(err, errHalted):
			if err := c.awaitStop(s); err != nil || c.isStopping() {
				return err
			}
		case err != nil:
			return err
		}
	}
}

// handle applies one message to the tracker. Its errors end the process: the tracker refuses only what Postgres must
// not send, and the waits for room end with the process alone.
func (c *Connector) handle(t *offsets.Tracker, m *pgoutput.Message) error {
	switch m.Kind {
	case pgoutput.KindInsert:
		return c.insert(t, m)
	case pgoutput.KindBegin:
		if err := c.awaitConfirmed(t); err != nil {
			return err
		}
		c.reader.commit, c.reader.commitTime, c.reader.xid = m.Begin.CommitLSN, m.Begin.CommitTime, m.Begin.XID
		if err := t.Begin(c.reader.commit, m.Begin.CommitTime); err != nil {
			return c.disorder(err)
		}
	case pgoutput.KindCommit:
		if c.reader.produced == c.reader.commit {
			c.reader.produced = 0
			c.producer.Mark()
		}
		if err := t.Commit(m.Commit.EndLSN); err != nil {
			return c.disorder(err)
		}
	case pgoutput.KindKeepalive:
		t.Observe(m.Keepalive.WALEnd)
	case pgoutput.KindLogicalMessage:
		return c.logical(t, m)
	case pgoutput.KindUpdate, pgoutput.KindDelete, pgoutput.KindTruncate:
		return c.changed(t, m)
	default:
		c.counts.add(m)
	}
	return nil
}

// awaitStop keeps the reader at a halted row until it is asked to stop, which finishes the stream, or until the stream
// breaks, which nobody else would notice: without a new one the slot counts as abandoned, and a server that was restarted
// keeps WAL for a connector that only looks alive.
func (c *Connector) awaitStop(s stream) error {
	select {
	case <-c.stopping:
		return c.finish(s)
	case <-c.life.Done():
		return c.life.Err()
	case <-s.Broken():
		_, err := s.Receive()
		return err
	}
}

// awaitConfirmed waits while more rows are unconfirmed than the window holds, acknowledged or not. Behind one partition
// that Kafka does not take, the others would go on without end, and a crash would send all of that again. It waits
// between transactions only: within one, also one that a broken stream cut short, it could be waiting for that
// transaction's own commit.
func (c *Connector) awaitConfirmed(t *offsets.Tracker) error {
	for !t.Open() && t.Unconfirmed() >= c.cfg.WindowRecords {
		c.producer.Commit()
		select {
		case <-c.moved:
		case <-c.life.Done():
			return c.life.Err()
		}
	}
	return nil
}

// insert takes a row from the stream to the producer.
func (c *Connector) insert(t *offsets.Tracker, m *pgoutput.Message) error {
	foreign, err := c.meet(m.Relation)
	if err != nil { // before Add: the row comes again
		return err
	}
	if foreign {
		c.counts.foreign.Add(1)
		return nil
	}
	return c.publish(t, m, nil)
}

// publish counts a row and produces its record, unless it is known to be bad. From Add on there is no way out but through
// Produce (rule 1).
func (c *Connector) publish(t *offsets.Tracker, m *pgoutput.Message, bad error) error {
	pos, ticket, fresh, err := t.Add()
	if err != nil {
		return c.disorder(err)
	}
	if !fresh {
		if c.haltedAt(pos) {
			return errHalted
		}
		c.counts.repeated.Add(1)
		return nil
	}
	if c.reader.covered.holds(pos, c.reader.timeline) {
		return c.cover(t, ticket)
	}
	return c.produce(t, m, pos, ticket, bad)
}

// produce takes a row with its position to the producer, or to where the policy says.
func (c *Connector) produce(t *offsets.Tracker, m *pgoutput.Message, pos offsets.Position, ticket offsets.Ticket, bad error) error {
	c.reader.position, _ = pos.AppendText(c.reader.position[:0]) // cannot fail
	if bad != nil {
		return c.badRow(t, m, pos, ticket, bad)
	}
	rec, err := c.cfg.Router.Route(m.Relation, m.Tuple, router.Source{Position: c.reader.position, CommitTime: c.reader.commitTime})
	if err != nil {
		return c.badRow(t, m, pos, ticket, err)
	}
	if c.reader.existing && c.cfg.SnapshotHeader {
		rec.Headers = append(rec.Headers, router.Header{Key: "snapshot", Value: []byte("true")})
	}
	if c.cfg.Traces != nil {
		c.trace(rec, pos)
	}
	size := rec.Size()
	if err := c.acquire(size); err != nil {
		return err
	}
	err = c.producer.ProduceAt(c.life, rec, ticket, c.kafkaPosition(pos))
	if err != nil {
		return c.notTaken(t, m, rec, pos, ticket, err)
	}
	c.reader.produced = c.reader.commit
	return nil
}

// fullAgain is how often the producer hears that there is still no room. Each call ends a transaction only where that
// makes room, which it may not have done the time before.
const fullAgain = 10 * time.Millisecond

// acquire waits for room in the window.
func (c *Connector) acquire(size int) error {
	for !c.window.TryAcquire(size) {
		// What fills the window may still lie in batches that wait for more: send them, or nobody ever makes room.
		c.producer.Full()
		wait, end := context.WithTimeout(c.life, fullAgain)
		err := c.window.Acquire(wait, size)
		end()
		if err == nil || c.life.Err() != nil {
			return err
		}
	}
	return nil
}

func (c *Connector) kafkaPosition(pos offsets.Position) kafka.Position {
	return kafka.Position{Timeline: c.reader.timeline, Commit: uint64(pos.Commit), Index: pos.Index}
}

// disorder types an error of the tracker: Postgres sent what its protocol rules out, or the code is wrong. Either way
// nothing may be confirmed on top of it.
func (c *Connector) disorder(err error) error {
	return &fault.Error{
		Kind: fault.Fatal, Object: fmt.Sprintf("slot %q", c.cfg.Replication.Slot), At: c.reader.commit.String(), Err: err,
		Next: "Restart the connector: it resumes at the slot's confirmed position and loses nothing. Report this, with the log, as a bug.",
	}
}

// identified hears who the server is before streaming starts, and decides whether the positions at hand still mean
// anything there.
func (c *Connector) identified(id replication.Identity) error {
	c.mu.Lock()
	c.identity = id
	c.mu.Unlock()

	slot := id.ConfirmedFlush
	t := c.tracker.Load()
	if t == nil {
		c.tracker.Store(offsets.NewTracker(slot))
		return nil
	}
	var why string
	switch {
	case id.TimelineChanged:
		why = "timeline changed"
	case slot > t.Confirmed():
		why = "another instance moved the slot"
	default:
		return nil
	}
	if err := c.producer.Drain(c.life); err != nil {
		return err
	}
	t.Rewind(slot)
	c.log.Warn("Positions start over at the slot's own",
		zap.String(telemetry.KeyReason, why), zap.String(telemetry.KeySlot, c.cfg.Replication.Slot),
		zap.String(telemetry.KeyLSN, slot.String()), zap.Int32(telemetry.KeyTimeline, id.Timeline))
	return nil
}
