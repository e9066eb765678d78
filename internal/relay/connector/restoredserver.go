package connector

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// expected is the transaction that a stream has to show before anything is confirmed on it. A position names a place in
// a log. In the log of a server that was put back to an older state, other events may be there. They would be lost: as
// events that Kafka has, or as events that this process has read. The transaction at a position shows which log it is,
// by the place of its commit record, its number and its commit time.
//
// After a start with transactions of Kafka, it is the transaction at the position that Kafka has stored. After an
// interruption it is the last transaction that this process has received: the stream starts there, or where the slot
// is. If that is confirmed, no other transaction may come before the confirmed position.
type expected struct {
	pending bool
	seen    bool // the transaction, or the slot is past it
	at      sink.Position
	upTo    lsn.LSN // nothing but the transaction lies between it and here
}

// from is the start of a stream that follows another one, if that is before the confirmed position.
func (c *Connector) from() lsn.LSN {
	if t := c.tracker.Load(); t != nil {
		commit, _ := t.Last()
		return commit
	}
	return 0
}

// expectStored is for a position that Kafka has stored. One that an earlier version stored, or the initial snapshot,
// has no transaction to show.
func (r *reader) expectStored(stored sink.Position) {
	r.expected = expected{pending: stored.XID != 0, at: stored, upTo: stored.Commit}
}

// expectLast is for a stream that follows an interruption.
func (r *reader) expectLast(id replication.Identity) {
	if commit, at := r.tracker.Last(); !r.expected.pending || r.expected.at.Commit < commit {
		r.expected = expected{
			pending: true, upTo: r.tracker.Confirmed(),
			at: sink.Position{Position: offsets.Position{Commit: commit}, Time: at},
		}
	}
	r.expected.seen = r.expected.at.Commit < id.ConfirmedFlush // each stream shows it again, or begins past it
}

// finds compares the transaction that begins with the expected one.
func (r *reader) finds(b *pgoutput.Begin) error {
	e := &r.expected
	switch {
	case b.CommitLSN < e.at.Commit:
		return nil
	case b.CommitLSN == e.at.Commit:
		if !b.CommitTime.Equal(e.at.Time) || e.at.XID != 0 && b.XID != e.at.XID {
			return r.restored(b.CommitLSN, fmt.Sprintf("transaction %d, committed at %s", b.XID, printed(b.CommitTime)))
		}
		e.seen = true
		return r.found(b.CommitLSN)
	}
	if err := r.passes(b.CommitLSN); err != nil {
		return err
	}
	if b.CommitLSN < e.upTo {
		return r.restored(b.CommitLSN, fmt.Sprintf("transaction %d, committed at %s", b.XID, printed(b.CommitTime)))
	}
	return r.found(b.CommitLSN)
}

// passes is for a stream that has come past the expected transaction. The stream need not show it if the slot was past
// it: the last status update of an earlier session may have arrived after the slot was looked at.
func (r *reader) passes(at lsn.LSN) error {
	e, s := &r.expected, r.c.currentStream()
	if e.seen || at <= e.at.Commit {
		return nil
	}
	past, err := s.Past(r.c.life, e.at.Commit)
	switch {
	case err != nil:
		return err
	case !past:
		return r.restored(e.at.Commit, "none")
	}
	e.seen = true
	return nil
}

// reaches takes a keepalive's position.
func (r *reader) reaches(at lsn.LSN) error {
	if err := r.passes(at); err != nil {
		return err
	}
	return r.found(at)
}

// found begins to confirm once the stream has shown everything.
func (r *reader) found(at lsn.LSN) error {
	if e := &r.expected; e.seen && at >= e.upTo {
		e.pending = false
		r.c.currentStream().Confirm()
	}
	return nil
}

// endsBefore is true for a primary whose log has no room for the last transaction that was received from it. A server
// that writes nothing would never come to the place at which another transaction could be found.
func endsBefore(id replication.Identity, last lsn.LSN) bool {
	return !id.TimelineChanged && !id.InRecovery && id.WALEnd != 0 && id.WALEnd <= last
}

// putBack refuses a server that was put back to an older state. The error names the evidence.
func (c *Connector) putBack(at lsn.LSN, err error) error {
	return replication.RestoredFault(&fault.Error{Object: c.slot(), At: at.String(), Err: err})
}

// restored refuses a server whose log holds something else.
func (r *reader) restored(at lsn.LSN, found string) error {
	was := "none"
	if e := &r.expected; at == e.at.Commit {
		was = "the transaction committed at " + printed(e.at.Time)
	}
	return r.c.putBack(at, fmt.Errorf("with its commit record at %s its log has %s, where this connector or Kafka "+
		"knows %s; or another publication is read than before", at, found, was))
}

func printed(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// reportBranch names a server whose timeline branched off before events that this process has read. With a checkpoint
// the stream refuses a server that was put back; without one it is read from, and nothing else would say that Kafka has
// events that the server does not have.
func (r *reader) reportBranch(ctx context.Context, s stream) {
	before := r.before
	r.before = replication.Mark{}
	if before == (replication.Mark{}) || r.c.cfg.Replication.Checkpoint.Name != "" {
		return
	}
	if err := s.Compare(ctx, before, "this connector"); err != nil {
		why, _ := fault.Split(err)
		r.c.log.Error("this server was put back to an older state; it is read from, since there is no checkpoint",
			zap.String(logkey.Reason, why), zap.String(logkey.Slot, r.c.cfg.Replication.Slot),
			zap.Strings(logkey.Commands, []string{"cdc-outbox repair --ghosts"}))
	}
}
