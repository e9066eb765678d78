package polling

import (
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/badrow"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// halt is a row at which a lane halts. It does not change once other goroutines see it.
type halt struct {
	relay.HaltedRow
	lane int
	seq  int64
	at   time.Time // when it was last looked at
}

// lookAgain is how often a row that is halted at is tried again. Unlike one that is read from the log it may have been
// corrected, or deleted.
const lookAgain = 5 * time.Second

// PositionPrefix distinguishes the name of a row in logs and dead letters from a position in the log.
const PositionPrefix = "seq-"

// position names a row, comparable as text.
func position(seq int64) []byte { return fmt.Appendf(nil, "%s%020d", PositionPrefix, seq) }

// applyPolicy applies the policy to a row that cannot become a record.
func (w *worker) applyPolicy(a attempt, err error) (taken bool, _ error) {
	var why *router.RowError
	if !errors.As(err, &why) {
		return false, &fault.Error{
			Kind: fault.Fatal, Object: a.source.object(), Err: err,
			Next: "Report this, with the log, as a bug.",
		}
	}
	next := fault.Do(why.Remedy + " Or correct or delete the row: its lane continues automatically then. " +
		"Or restart with --router-on-bad-row dead_letter, or skip, which passes over every such row.")
	return w.divert(a, badrow.OfRouter(why), next, &deadletter.Case{Reason: why.Reason, Detail: badrow.Detail(why)})
}

// notTaken applies it to a record that its topic cannot take.
func (w *worker) notTaken(a attempt, rec *router.Record, refused *sink.RefusedError) (taken bool, _ error) {
	bad := badrow.OfRecord(rec, refused)
	return w.divert(a, bad, badrow.Remedy(refused, "the lane continues"), &deadletter.Case{
		Reason: bad.Reason, Detail: bad.Cause, Record: rec, Bytes: refused.Bytes, Limit: refused.Limit,
	})
}

// divert takes a bad row out of the stream, or halts its lane. next is the remedy, letter the facts for a dead
// letter.
func (w *worker) divert(a attempt, bad badrow.Row, next fault.Remedy, letter *deadletter.Case) (taken bool, err error) {
	row := w.batch.rows[a.row]
	bad.Position, bad.Table = position(row.seq), a.source.table.String()
	policy := w.r.cfg.Policies.For(bad.Reason)
	if policy != relay.Halt {
		return w.apply(policy, a, bad, next, letter, w.r.badRows.Failed)
	}
	d, ok := a.source.decidedFor(row.lane, bad)
	if !ok {
		w.halt(a, bad, next)
		return true, nil
	}
	bad.Decided = d.By
	return w.apply(d.Action, a, bad, next, letter, func(bad badrow.Row) { // it was counted when it was halted at
		w.r.passed(a.source, row.lane, bad, d)
	})
}

// apply takes a row out of the stream. done is called when it is, or is with the producer.
func (w *worker) apply(policy relay.Policy, a attempt, bad badrow.Row, next fault.Remedy, letter *deadletter.Case,
	done func(badrow.Row),
) (taken bool, err error) {
	if policy == relay.Skip {
		done(bad)
		w.r.badRows.Skip(bad)
		w.batch.markPassedOver(a.row)
		return true, nil
	}
	letter.Relation, letter.Tuple, letter.Position = w.batch.relation, w.batch.tuple(a.row), bad.Position
	taken, err = w.deadLetter(a, w.r.cfg.DeadLetters.Letter(letter, time.Now()), bad, next)
	if taken && w.batch.state(a.row) != left { // no topic takes the letter either: the lane is halted
		done(bad)
	}
	return taken, err
}

// deadLetter sends the letter with the row's ticket, so that the row is marked only when the letter is in Kafka.
func (w *worker) deadLetter(a attempt, letter *router.Record, bad badrow.Row, next fault.Remedy) (
	taken bool, err error,
) {
	for {
		err := w.offer(a, letter)
		var refused *sink.RefusedError
		switch {
		case err == nil:
			w.r.badRows.Sent(bad, letter)
			return true, nil
		case !errors.As(err, &refused):
			return false, a.later(err)
		}
		smaller, ok := deadletter.Shrink(letter)
		if !ok {
			bad.Cause = refused.Error()
			w.halt(a, bad, next)
			return true, nil
		}
		letter = smaller
	}
}

// halt leaves a lane alone from a row on. The other lanes continue: no key is in two of them.
func (w *worker) halt(a attempt, bad badrow.Row, next fault.Remedy) {
	s, row := a.source, &w.batch.rows[a.row]
	w.batch.leave(a.row)
	s.lanes.rest(row.lane)
	now := time.Now()
	next = withPass(next, bad)
	s.mu.Lock()
	was := s.halted[row.lane]
	h := &halt{lane: row.lane, seq: row.seq, at: now, HaltedRow: relay.HaltedRow{
		Table: bad.Table, Position: string(bad.Position), EventID: bad.EventID, Reason: string(bad.Reason),
		Message: bad.Cause, Next: next.Next, Commands: next.Commands, Since: now,
	}}
	same := was != nil && was.seq == h.seq && was.Message == h.Message
	if same {
		h.Since = was.Since
	}
	s.halted[row.lane] = h
	s.mu.Unlock()
	if same {
		return
	}
	w.r.badRows.Failed(bad)
	w.r.log.Error("halted at an outbox row that cannot be published; nothing after it in its lane, a 64th of all "+
		"keys, is published either",
		append(bad.Fields(), telemetry.RemedyFields(next)...)...)
}

// haltedRows lists them, the oldest first.
func (r *Relay) haltedRows() []*halt {
	var all []*halt
	for _, s := range r.sources {
		s.mu.Lock()
		for _, h := range s.halted {
			all = append(all, h)
		}
		s.mu.Unlock()
	}
	sortHalted(all)
	return all
}
