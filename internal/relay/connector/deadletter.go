package connector

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/badrow"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// lookAgain is how often a record that its topic does not take is offered again. The producer asks for the topic's
// limit at its own pace.
const lookAgain = 5 * time.Second

// caseOf is the row at hand, for a letter.
func (r *reader) caseOf(row outboxRow, reason router.Reason, detail string) *deadletter.Case {
	return &deadletter.Case{
		Relation: row.relation, Tuple: row.tuple, Position: r.position, CommitTime: r.commitTime, Reason: reason,
		Detail: detail,
	}
}

// deadLetter sends the letter with the row's ticket, so that the slot moves over the row only when the letter is in
// Kafka; in a transaction it is part of it. Anything that keeps Kafka from taking the letter is waited for: a letter is
// the last copy of the row that an operator will look at.
func (r *reader) deadLetter(row outboxRow, letter *router.Record, bad badrow.Row) error {
	for {
		err := r.offer(row, letter)
		var refused *sink.RefusedError
		switch {
		case err == nil:
			r.leave()
			r.produced = r.commit
			r.c.badRows.Sent(bad, letter)
			return nil
		case !errors.As(err, &refused):
			return err
		}
		if smaller, ok := deadletter.Shrink(letter); ok {
			letter = smaller
			continue
		}
		d, err := r.waitAt(row, bad, refused)
		switch {
		case err != nil:
			return err
		case d != nil && d.Action == relay.Skip:
			r.goOn(&bad, *d)
			return r.skip(row, bad)
		}
	}
}

// offer produces a record outside of the usual path.
func (r *reader) offer(row outboxRow, rec *router.Record) error {
	size := rec.Size()
	if err := r.acquire(size); err != nil {
		return err
	}
	err := r.c.producer.ProduceAt(r.c.life, rec, row.ticket, r.kafkaPosition(row.pos))
	if err != nil {
		r.c.window.Release(1, int64(size))
	}
	return err
}

// notTaken applies the policy to a record that ProduceAt did not take.
func (r *reader) notTaken(row outboxRow, rec *router.Record, err error) error {
	r.c.window.Release(1, int64(rec.Size()))
	var refused *sink.RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	bad := r.named(row, badrow.OfRecord(rec, refused))
	r.c.badRows.Failed(bad)
	switch r.c.cfg.Policies.For(bad.Reason) {
	case relay.Skip:
		return r.skip(row, bad)
	case relay.DeadLetter:
		return r.setAside(row, rec, refused, bad)
	}
	r.c.log.Error("halted at an event that its topic cannot take; nothing after it is published either, "+
		"until the topic takes it",
		append(bad.Fields(), telemetry.RemedyFields(r.passOr(bad, refused))...)...)
	for {
		d, err := r.waitAt(row, bad, refused)
		switch {
		case err != nil:
			return err
		case d != nil:
			r.goOn(&bad, *d)
			if d.Action == relay.Skip {
				return r.skip(row, bad)
			}
			return r.setAside(row, rec, refused, bad)
		}
		err = r.offer(row, rec)
		switch {
		case err == nil:
			r.leave()
			r.produced = r.commit
			return nil
		case !errors.As(err, &refused):
			return err
		}
	}
}

// setAside sends the dead letter of a record that its topic does not take.
func (r *reader) setAside(row outboxRow, rec *router.Record, refused *sink.RefusedError, bad badrow.Row) error {
	k := r.caseOf(row, bad.Reason, bad.Cause)
	k.Record, k.Bytes, k.Limit = rec, refused.Bytes, refused.Limit
	return r.deadLetter(row, r.c.cfg.DeadLetters.Letter(k, time.Now()), bad)
}

// passOr is the next step in front of a record that its topic does not take.
func (r *reader) passOr(bad badrow.Row, refused *sink.RefusedError) fault.Remedy {
	return relay.PassRemedy(bad.EventID, string(r.position), refused.Reason).Then(remedy(refused))
}

// waitAt halts at a record that its topic does not take. It returns after a while, and the caller tries again, or with
// the operator's decision about the row.
func (r *reader) waitAt(row outboxRow, bad badrow.Row, refused *sink.RefusedError) (*relay.Decision, error) {
	since := time.Now()
	next := r.passOr(bad, refused)
	r.c.mu.Lock()
	if r.c.halted != nil {
		since = r.c.halted.Since
	}
	r.c.mu.Unlock()
	r.c.setHalted(&relay.HaltedRow{
		Position: string(r.position), LSN: row.pos.Commit.String(), EventID: bad.EventID, Reason: refused.Reason,
		Message: refused.Error(), Next: next.Next, Commands: next.Commands, Since: since,
	})
	r.c.producer.Commit()
	timer := time.NewTimer(lookAgain)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil, nil
		case d := <-r.c.decided:
			if d.Of(string(bad.Position), bad.EventID) {
				return &d, nil
			}
		case <-r.c.stopping:
			return nil, errHalted
		case <-r.c.currentStream().Broken():
			return nil, errBroken
		case <-r.c.life.Done():
			return nil, r.c.life.Err()
		}
	}
}

// leave ends a halt that was waited out.
func (r *reader) leave() {
	if was := r.c.endHalt(relay.Streaming); was != nil {
		r.c.log.Info("topic takes the event now; continuing", zap.String(logkey.Event, was.EventID),
			zap.String(logkey.LSN, was.LSN))
	}
}

// endHalt ends a halt, and returns the row; nil if there was none.
func (c *Connector) endHalt(next relay.StateName) *relay.HaltedRow {
	c.mu.Lock()
	was := c.halted
	c.halted = nil
	c.mu.Unlock()
	if was != nil {
		c.setState(relay.State{Name: next})
	}
	return was
}

func remedy(r *sink.RefusedError) fault.Remedy { return badrow.Remedy(r, "the relay continues") }
