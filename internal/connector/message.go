package connector

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// logical takes a logical message that the application emitted as an event. From here on it is a row among the rows of
// its transaction. Messages of other prefixes are not events.
func (r *reader) logical(m *pgoutput.Message) error {
	l := &m.Logical
	if !slices.Contains(r.c.cfg.Replication.Messages, l.Prefix) {
		r.c.counts.messages.Add(1)
		return nil
	}
	if !l.Transactional {
		return r.refuseMessage(m)
	}
	rel, tuple, bad := r.c.cfg.Router.Message(l.Prefix, l.Content)
	if err := r.c.cfg.Router.Prepare(rel); err != nil {
		return err
	}
	return r.publish(rel, tuple, bad)
}

// refuseMessage applies the policy to a message outside of any transaction. Its sender may have rolled back since, no
// commit gives it a position, and no ticket can hold the slot in front of it. So it can be passed over or halted at,
// but not dead-lettered.
func (r *reader) refuseMessage(m *pgoutput.Message) error {
	bad := router.RefuseMessage(m.Logical.Prefix)
	if r.c.haltAgain() {
		return errHalted
	}
	r.c.cfg.Metrics.Failed("", string(bad.Reason))
	lsn := m.Logical.LSN.String()
	fields := []zap.Field{
		zap.String(logkey.LSN, lsn), zap.String(logkey.Reason, string(bad.Reason)),
		zap.String(logkey.Cause, bad.Error()),
	}
	if r.c.cfg.Policies.For(bad.Reason) != relay.Halt {
		r.c.badRows.SkipUnnamed()
		r.c.log.Error("skipped a logical message that was not emitted in a transaction",
			append(fields, zap.String(logkey.Next, bad.Remedy))...)
		return nil
	}
	next := bad.Remedy + " To go on: restart with --router-bad-rows-unconvertible skip, and without it once the " +
		"slot is past the LSN."
	r.c.log.Error("halted at a logical message that was not emitted in a transaction; nothing after it is "+
		"published either", append(fields, zap.String(logkey.Next, next))...)
	r.c.setHalted(&relay.HaltedRow{
		LSN: lsn, Reason: string(bad.Reason), Message: bad.Error(), Next: next,
		Since: time.Now(),
	})
	r.c.producer.Commit()
	return errHalted
}
