package polling

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// halt is a row at which a lane halts. Only at changes once other goroutines see it, under the source's lock.
type halt struct {
	relay.HaltedRow
	lane int
	seq  int64
	at   time.Time // when it was last looked at
}

// lookAgain is how often a row that is halted at is tried again. Unlike one that is read from the log it may have been
// corrected, or deleted.
const lookAgain = 5 * time.Second

// PositionPrefix tells the name of a row in logs and dead letters from a position in the log.
const PositionPrefix = "seq-"

// position names a row, comparable as text.
func position(seq int64) []byte { return fmt.Appendf(nil, "%s%020d", PositionPrefix, seq) }

// badRow applies the policy to a row that cannot become a record.
func (w *worker) badRow(ctx, limited context.Context, s *source, i int, err error) (taken bool, _ error) {
	var row *router.RowError
	if !errors.As(err, &row) {
		return false, &fault.Error{Kind: fault.Fatal, Object: s.object(), Err: err, Next: "Report this, with the log, as a bug."}
	}
	detail := row.Detail
	if row.Column != "" {
		detail = "column " + row.Column + ": " + detail
	}
	next := row.Remedy + " Or correct or delete the row: its lane goes on by itself then. " +
		"Or restart with --router-on-bad-row dead_letter, or skip, which passes over every such row."
	return w.apply(ctx, limited, s, i, bad{topic: "", id: row.EventID, reason: row.Reason, message: row.Error(), next: next},
		&deadletter.Case{Reason: row.Reason, Detail: detail})
}

// notTaken applies it to a record that is larger than its topic takes.
func (w *worker) notTaken(ctx, limited context.Context, s *source, i int, rec *router.Record, refused *kafka.RefusedError) (taken bool, _ error) {
	next := fmt.Sprintf("Raise max.message.bytes of topic %q to %d or more, and what its consumers fetch; the lane goes on by itself then. "+
		"Or restart with --router-bad-rows-too-large dead_letter, or skip.", refused.Topic, refused.Bytes)
	reason := router.Reason(refused.Reason)
	return w.apply(ctx, limited, s, i, bad{topic: rec.Topic, id: deadletter.EventID(rec.Headers), reason: reason, message: refused.Error(), next: next},
		&deadletter.Case{Reason: reason, Detail: refused.Error(), Record: rec, Bytes: refused.Bytes, Limit: refused.Limit})
}

// bad is what is known of a bad row.
type bad struct {
	topic, id, message, next string
	reason                   router.Reason
}

func (w *worker) apply(ctx, limited context.Context, s *source, i int, b bad, k *deadletter.Case) (taken bool, err error) {
	seq := w.batch.rows[i].seq
	fields := []zap.Field{
		zap.String(logkey.Event, b.id), zap.ByteString(logkey.Position, position(seq)),
		zap.String(logkey.Table, s.table.String()), zap.String(logkey.Reason, string(b.reason)), zap.String(logkey.Cause, b.message),
	}
	switch w.r.cfg.Policies.For(b.reason) {
	case relay.Skip:
		w.r.cfg.Metrics.Failed(b.topic, string(b.reason))
		w.r.log.Error("Skipped an outbox row that cannot be published, as router.on_bad_row says", fields...)
		w.r.counts.skipped.Add(1)
		w.batch.settle(i)
		return true, nil
	case relay.DeadLetter:
		k.Relation, k.Tuple, k.Position = w.batch.relation, w.batch.tuple(i), position(seq)
		taken, err = w.deadLetter(ctx, limited, s, i, w.r.cfg.DeadLetters.Letter(k, time.Now()), fields, b)
		if taken {
			w.r.cfg.Metrics.Failed(b.topic, string(b.reason))
		}
		return taken, err
	}
	w.halt(s, i, b, fields)
	return true, nil
}

// deadLetter sends the letter with the row's ticket, so that the row is marked only when the letter is in Kafka.
func (w *worker) deadLetter(ctx, limited context.Context, s *source, i int, letter *router.Record, fields []zap.Field, b bad) (taken bool, err error) {
	for {
		err := w.offer(limited, letter, i)
		var refused *kafka.RefusedError
		switch {
		case err == nil:
			w.r.counts.deadLettered.Add(1)
			w.r.cfg.Metrics.DeadLettered(string(b.reason))
			w.r.log.Error("Sent an outbox row that cannot be published to the dead-letter topic, as router.on_bad_row says",
				append(fields, zap.String(logkey.Topic, letter.Topic))...)
			return true, nil
		case !errors.As(err, &refused):
			return false, w.later(ctx, limited, err)
		}
		smaller, ok := deadletter.Shrink(letter)
		if !ok {
			b.message = refused.Error()
			w.halt(s, i, b, fields)
			return true, nil
		}
		letter = smaller
	}
}

// halt leaves a lane alone from a row on. The other lanes go on: no key is in two of them.
func (w *worker) halt(s *source, i int, b bad, fields []zap.Field) {
	row := &w.batch.rows[i]
	w.batch.leave(i)
	s.lanes.rest(row.lane)
	now := time.Now()
	s.mu.Lock()
	was := s.halted[row.lane]
	h := &halt{lane: row.lane, seq: row.seq, at: now, HaltedRow: relay.HaltedRow{
		Table: s.table.String(), Position: string(position(row.seq)), EventID: b.id, Reason: string(b.reason),
		Message: b.message, Next: b.next, Since: now,
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
	w.r.cfg.Metrics.Failed(b.topic, string(b.reason))
	w.r.log.Error("Halted at an outbox row that cannot be published; nothing after it in its lane, a 64th of all keys, is published either",
		append(fields, zap.String(logkey.Next, b.next))...)
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
