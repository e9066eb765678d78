package polling

import (
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// refused applies the policy to a record that a broker refuses after it was taken. The producer calls it from a
// goroutine of its own; the row is not at hand there, so a letter is built from the record.
func (r *Relay) refused(x sink.Refusal) sink.Resolution {
	rec := x.Record()
	return r.badRows.Refused(x, rec, r.caseOf(x, rec), "")
}

func (r *Relay) caseOf(x sink.Refusal, rec *router.Record) *deadletter.Case {
	k := deadletter.Refused(rec, router.Reason(x.Reason), x.Words, x.Bytes, x.Limit, r.cfg.Tables)
	w := r.workers[x.Ticket>>ticketBits]
	k.Position = position(w.batch.sequenceOf(int(uint32(x.Ticket))))
	return k
}

// troubles are the producer's, with the event that a refusal is about.
func (r *Relay) troubles() []sink.Trouble { return r.badRows.Name(r.producer.Trouble()) }
