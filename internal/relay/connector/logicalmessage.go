package connector

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
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
		return r.passOver(m)
	}
	rel, tuple, bad := r.c.cfg.Router.Message(l)
	if err := r.c.cfg.Router.Prepare(rel); err != nil {
		return err
	}
	return r.publish(rel, tuple, bad)
}

// looseAgain is how long the log keeps quiet about further messages outside of transactions.
const looseAgain = time.Minute

// passOver leaves out a message that was emitted outside of any transaction, whatever the policy for bad rows says. Its
// sender may have rolled back since, no commit gives it a position, and no ticket can hold the slot in front of it: no
// transaction promised it. To halt at it would let every role that may call the function stop the relay.
func (r *reader) passOver(m *pgoutput.Message) error {
	bad := router.RefuseMessage(m.Logical.Prefix)
	r.c.cfg.Metrics.Failed("", string(bad.Reason))
	r.c.badRows.SkipUnnamed()
	r.loose.more++
	if now := time.Now(); now.Sub(r.loose.at) >= looseAgain {
		r.c.log.Warn("passed over a logical message that was not emitted in a transaction",
			zap.Stringer(logkey.LSN, m.Logical.LSN), zap.String(logkey.Reason, string(bad.Reason)),
			zap.String(logkey.Cause, bad.Error()), zap.Uint64(logkey.Records, r.loose.more),
			zap.String(logkey.Next, bad.Remedy))
		r.loose = warnings{at: now}
	}
	return nil
}
