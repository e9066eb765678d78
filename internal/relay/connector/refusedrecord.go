package connector

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// refused applies the policy to a record that a broker refuses after it was taken. The producer calls it from a
// goroutine of its own.
func (c *Connector) refused(r sink.Refusal) sink.Resolution {
	rec := r.Record()
	return c.badRows.Refused(r, rec, c.caseOfRecord(r, rec), c.commitOf(r))
}

// commitOf is the commit LSN of a record's row, as Postgres prints it.
func (c *Connector) commitOf(r sink.Refusal) string {
	if commit, _, ok := c.tracker.Load().Transaction(r.Ticket); ok {
		return commit.String()
	}
	return ""
}

// caseOfRecord gathers the facts about a record's row. Without a position header the row is known by its transaction
// alone.
func (c *Connector) caseOfRecord(r sink.Refusal, rec *router.Record) *deadletter.Case {
	k := deadletter.Refused(rec, router.Reason(r.Reason), r.Words, r.Bytes, r.Limit, c.cfg.Replication.Tables)
	commit, at, ok := c.tracker.Load().Transaction(r.Ticket)
	if ok {
		k.CommitTime = at
	}
	if k.Position = deadletter.Position(rec.Headers); k.Position == nil && ok {
		k.Position = fmt.Appendf(nil, "%016x", uint64(commit))
	}
	return k
}

// troubles are the producer's, with the event that a refusal is about.
func (c *Connector) troubles() []sink.Trouble { return c.badRows.Name(c.producer.Trouble()) }
