package connector

import (
	"context"
	"errors"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/replication"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// reader is the goroutine that consumes the stream. It outlives the streams. Only that goroutine touches its fields;
// the state that other goroutines see is in the Connector.
type reader struct {
	c       *Connector
	tracker *offsets.Tracker // set when a stream begins

	commit     offsets.LSN // of the open transaction
	commitTime time.Time
	xid        uint32      // of the open transaction
	position   []byte      // scratch for the position header
	produced   offsets.LSN // the transaction of the last row produced, 0 after its end

	relation  *pgoutput.Relation // of the last row
	foreign   bool               // it is not an outbox
	strangers warnings           // of tables that are not an outbox

	tenure
	halted   *offsets.Position // the row at which the reader has halted
	lead     lead
	overdue  bool  // Kafka has acknowledged nothing for a while: see awaitConfirmed
	timeline int32 // of the stream
	covered  covered
	expected expected

	snapshot bool        // the row at hand belongs to the initial snapshot
	sent     int64       // number of the last row of the snapshot that was handed to the producer
	loose    warnings    // of messages outside of transactions
	changes  [3]warnings // of updates, deletes and truncates
}

// outboxRow is a row of an outbox, or a logical message in the form of one, with its place in the stream.
type outboxRow struct {
	relation *pgoutput.Relation
	tuple    pgoutput.Tuple
	pos      offsets.Position
	ticket   offsets.Ticket
}

// consume relays one stream until it breaks; nil means that a graceful stop is complete.
func (r *reader) consume(s stream) error {
	r.c.setStream(s)
	defer r.c.setStream(nil)
	if g := r.c.cfg.Standbys; g != nil {
		defer g.Follow(0)
	}
	switch err := r.relay(s); {
	case errors.Is(err, sink.ErrFenced):
		return r.fencedOff(s)
	case errors.Is(err, sink.ErrSessionOver):
		return r.beginAgain(err)
	case errors.Is(err, errBroken):
		_, err = s.Receive()
		return err
	case err != nil && fault.KindOf(err) != fault.Retry:
		r.settle()
		return err
	default:
		return err
	}
}

// settle gives Kafka the time of a graceful stop to acknowledge the records in flight, before an error ends the
// attempt: what is confirmed by then is written into the checkpoint, and the next attempt does not repeat it.
func (r *reader) settle() {
	if !r.begun {
		return
	}
	ctx, cancel := context.WithTimeout(r.c.life, r.c.cfg.DrainLimit)
	defer cancel()
	_ = r.c.producer.Drain(ctx) // what is not acknowledged is sent again
}

func (r *reader) relay(s stream) error {
	r.tracker = r.c.tracker.Load()
	r.tracker.Resume()
	switch err := r.fence(s); {
	case errors.Is(err, errStopping):
		return r.finish(s)
	case err != nil:
		return err
	}
	switch err := r.runSnapshot(s); {
	case errors.Is(err, errStopping):
		return r.finish(s)
	case errors.Is(err, errFinished):
		return nil
	case err != nil:
		return err
	}
	for {
		if err := r.obeyPause(s); err != nil {
			return err
		}
		if err := r.c.sessionOver(); err != nil {
			return err
		}
		if r.c.isStopping() && !r.tracker.Open() {
			return r.finish(s)
		}
		m, err := s.Receive()
		if err != nil {
			if errors.Is(err, replication.ErrInterrupted) {
				continue
			}
			// The rows handed over are sent while the next stream is being opened.
			r.c.producer.Flush()
			return err
		}
		switch err := r.handle(m); {
		case err == nil:
		case errors.Is(err, errHalted):
			if err := r.awaitStop(s); err != nil || r.c.isStopping() {
				return err
			}
		case errors.Is(err, errStopping):
			return r.finish(s)
		case err != nil:
			return err
		}
	}
}

// runSnapshot publishes the initial snapshot, if there is one. While a row of it halts, or a pause lasts, nothing of
// it is being read: the query that brings the rows would keep the server from vacuuming.
func (r *reader) runSnapshot(s stream) error {
	for {
		if err := r.awaitResume(s); err != nil {
			return err
		}
		err := r.publishSnapshot(s)
		switch {
		case errors.Is(err, errPaused):
		case errors.Is(err, errHalted):
			if err := r.awaitStop(s); err != nil {
				return err
			}
			if r.c.isStopping() {
				return errFinished
			}
		default:
			return err
		}
	}
}

// handle applies one message to the tracker. Its errors end the process, as the tracker refuses only messages that
// Postgres must not send, or the stream: a wait for Kafka or for standbys ends with it.
func (r *reader) handle(m *pgoutput.Message) error {
	switch m.Kind {
	case pgoutput.KindInsert:
		return r.insert(m)
	case pgoutput.KindBegin:
		if err := r.awaitConfirmed(); err != nil {
			return err
		}
		if r.expected.pending {
			if err := r.finds(&m.Begin); err != nil {
				return err
			}
		}
		if err := r.awaitStandbys(m.Begin.CommitLSN, m.Begin.CommitTime); err != nil {
			return err
		}
		r.commit, r.commitTime, r.xid = m.Begin.CommitLSN, m.Begin.CommitTime, m.Begin.XID
		if err := r.tracker.Begin(r.commit, m.Begin.CommitTime); err != nil {
			return r.disorder(err)
		}
	case pgoutput.KindCommit:
		if r.produced == r.commit {
			r.produced = 0
			r.c.producer.Mark()
		}
		if err := r.tracker.Commit(m.Commit.EndLSN); err != nil {
			return r.disorder(err)
		}
	case pgoutput.KindKeepalive:
		if r.expected.pending {
			if err := r.reaches(m.Keepalive.WALEnd); err != nil {
				return err
			}
		}
		r.tracker.Observe(m.Keepalive.WALEnd)
	case pgoutput.KindLogicalMessage:
		return r.logical(m)
	case pgoutput.KindUpdate, pgoutput.KindDelete, pgoutput.KindTruncate:
		return r.changed(m)
	case pgoutput.KindPassedOver:
		r.c.counts.foreign.Add(1)
	default:
		r.c.counts.add(m)
	}
	return nil
}

// insert takes a row from the stream to the producer.
func (r *reader) insert(m *pgoutput.Message) error {
	foreign, err := r.meet(m.Relation)
	if err != nil { // before Add: the row is sent again
		return err
	}
	if foreign {
		r.c.counts.foreign.Add(1)
		return nil
	}
	return r.publish(m.Relation, m.Tuple, nil)
}

// publish counts a row and produces its record, unless bad says why it cannot be one. After Add the row must reach the
// producer, or be taken back (rule 1).
func (r *reader) publish(rel *pgoutput.Relation, tuple pgoutput.Tuple, bad error) error {
	pos, ticket, fresh, err := r.tracker.Add()
	if err != nil {
		return r.disorder(err)
	}
	if !fresh {
		r.c.counts.repeated.Add(1)
		return nil
	}
	if r.covered.holds(pos, r.timeline) {
		return r.cover(ticket)
	}
	err = r.produce(outboxRow{relation: rel, tuple: tuple, pos: pos, ticket: ticket}, bad)
	if errors.Is(err, errBroken) {
		r.tracker.TakeBack()
	}
	return err
}

// produce takes a row with its position to the producer, or applies the policy to it.
func (r *reader) produce(row outboxRow, bad error) error {
	r.position, _ = row.pos.AppendText(r.position[:0]) // cannot fail
	if bad != nil {
		return r.applyPolicy(row, bad)
	}
	rec, err := r.route(row)
	if rec == nil {
		return err
	}
	if r.snapshot && r.c.cfg.SnapshotHeader {
		rec.Headers = append(rec.Headers, router.Header{Key: router.HeaderSnapshot, Value: []byte("true")})
	}
	if r.c.cfg.Traces != nil {
		r.trace(rec, row.pos)
	}
	if err := r.acquire(rec.Size()); err != nil {
		return err
	}
	err = r.c.producer.ProduceAt(r.c.life, rec, row.ticket, r.kafkaPosition(row.pos))
	if err != nil {
		return r.notTaken(row, rec, err)
	}
	r.produced = r.commit
	return nil
}

func (r *reader) kafkaPosition(pos offsets.Position) sink.Position {
	at := sink.Position{Timeline: r.timeline, Position: pos}
	if !r.snapshot {
		at.XID, at.Time = r.xid, r.commitTime
	}
	return at
}

// haltedAt reports whether a new stream, or a repeated snapshot, has brought the reader back to the row at which it had
// halted.
func (r *reader) haltedAt(pos offsets.Position) bool {
	return r.halted != nil && pos == *r.halted && r.c.haltAgain()
}

// disorder types an error of the tracker: Postgres sent a message that its protocol rules out, or the code is wrong.
// Either way nothing may be confirmed on top of it.
func (r *reader) disorder(err error) error {
	var why *offsets.StreamError
	if r.expected.pending && errors.As(err, &why) {
		return r.c.putBack(r.commit, err)
	}
	return &fault.Error{
		Kind: fault.Fatal, Object: r.c.slot(), At: r.commit.String(), Err: err,
		Next: "Restart the connector: it resumes at the slot's confirmed position and loses nothing. " +
			"Report this, with the log, as a bug.",
	}
}
