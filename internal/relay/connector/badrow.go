package connector

import (
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/badrow"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// errHalted keeps the reader at a row until the process is asked to stop. Acknowledgements and status updates go on
// meanwhile, so that the slot moves up to the row's transaction and the server does not drop the connection.
var errHalted = errors.New("halted")

// passOver is the remedy for the row itself: it is read from the log, where it cannot be corrected.
const passOver = "If that is a setting, restart with it, and the row is read again. Correcting or deleting the row " +
	"in the table does not help: the log holds it as it was written; after --skip, insert it again, corrected. A " +
	"policy for all such rows needs a restart: --router-on-bad-row dead_letter, or --router-on-bad-row skip."

// applyPolicy applies the policy to a row that cannot become a record.
func (r *reader) applyPolicy(row outboxRow, err error) error {
	var why *router.RowError
	if !errors.As(err, &why) {
		return r.disorder(err)
	}
	bad := r.named(row, badrow.OfRouter(why))
	again := r.haltedAt(row.pos)
	if !again {
		r.c.badRows.Failed(bad)
	}
	policy := r.c.cfg.Policies.For(bad.Reason)
	if policy == relay.Halt {
		if !again {
			r.haltAt(row, bad, why.Remedy)
		}
		r.c.producer.Commit()
		d, err := r.decision(bad)
		if err != nil {
			return err
		}
		r.goOn(&bad, d)
		policy = d.Action
	}
	if policy == relay.Skip {
		return r.skip(row, bad)
	}
	k := r.caseOf(row, bad.Reason, badrow.Detail(why))
	k.ID = why.EventID
	return r.deadLetter(row, r.c.cfg.DeadLetters.Letter(k, time.Now()), bad)
}

// decision waits for an operator's decision about the row. A row of the snapshot is not waited for here: it is read
// again when there is a decision.
func (r *reader) decision(bad badrow.Row) (relay.Decision, error) {
	if !r.snapshot {
		return r.awaitDecision(bad)
	}
	if d, ok := r.decidedFor(bad); ok {
		return d, nil
	}
	return relay.Decision{}, errHalted
}

// haltAt says that the connector is halted, once for each row.
func (r *reader) haltAt(row outboxRow, bad badrow.Row, remedy string) {
	pass := relay.PassRemedy(bad.EventID, string(r.position), string(bad.Reason))
	next := strings.TrimSpace(pass.Next + " " + remedy + " " + passOver)
	r.c.log.Error("halted at an outbox row that cannot be published; nothing after it is published either",
		append(bad.Fields(), zap.String(logkey.Next, next), zap.Strings(logkey.Commands, pass.Commands))...)
	r.c.setHalted(&relay.HaltedRow{
		Position: string(r.position), LSN: bad.LSN, EventID: bad.EventID, Reason: string(bad.Reason),
		Message: bad.Cause, Next: next, Commands: pass.Commands, Since: time.Now(),
	})
	pos := row.pos
	r.halted = &pos
}

// named adds the row's place in the stream.
func (r *reader) named(row outboxRow, bad badrow.Row) badrow.Row {
	bad.Position, bad.LSN = r.position, row.pos.Commit.String()
	bad.EventID = relay.Storable(bad.EventID) // decisions are kept in a table, by it
	return bad
}

func (r *reader) skip(row outboxRow, bad badrow.Row) error {
	r.c.badRows.Skip(bad)
	if err := r.tracker.Ack([]offsets.Ticket{row.ticket}, nil); err != nil {
		return r.disorder(err)
	}
	return nil
}
