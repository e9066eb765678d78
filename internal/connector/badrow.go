package connector

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/badrow"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// errHalted keeps the reader at a row until the process is asked to stop. Acknowledgements and status updates go on
// meanwhile, so that the slot moves up to the row's transaction and the server does not drop the connection.
var errHalted = errors.New("halted")

// passOver is the remedy for the row itself: it is read from the log, where it cannot be corrected.
const passOver = "If that is a setting, restart with it, and the row is read again. Otherwise, correcting or " +
	"deleting this row " +
	"in the table does not help: the log holds it as it was written. To continue without losing it: restart with " +
	"--router-on-bad-row dead_letter, then correct it with cdc-outbox dead-letter retry. To pass over it: " +
	"restart with " +
	"--router-on-bad-row skip (skips every such row: remove it again afterwards); then insert it again, corrected."

// applyPolicy applies the policy to a row that cannot become a record.
func (r *reader) applyPolicy(row outboxRow, err error) error {
	var why *router.RowError
	if !errors.As(err, &why) {
		return r.disorder(err)
	}
	bad := r.named(row, badrow.OfRouter(why))
	r.c.badRows.Failed(bad)
	switch r.c.cfg.Policies.For(bad.Reason) {
	case relay.Skip:
		return r.skip(row, bad)
	case relay.DeadLetter:
		k := r.caseOf(row, bad.Reason, badrow.Detail(why))
		return r.deadLetter(row, r.c.cfg.DeadLetters.Letter(k, time.Now()), bad)
	}
	next := why.Remedy + " " + passOver
	r.c.log.Error("halted at an outbox row that cannot be published; nothing after it is published either",
		append(bad.Fields(), zap.String(logkey.Next, next))...)
	r.c.setHalted(&relay.HaltedRow{
		Position: string(r.position), LSN: bad.LSN, EventID: bad.EventID, Reason: string(bad.Reason),
		Message: bad.Cause,
		Next:    next, Since: time.Now(),
	})
	pos := row.pos
	r.halted = &pos
	r.c.producer.Commit()
	return errHalted
}

// named adds the row's place in the stream.
func (r *reader) named(row outboxRow, bad badrow.Row) badrow.Row {
	bad.Position, bad.LSN = r.position, row.pos.Commit.String()
	return bad
}

func (r *reader) skip(row outboxRow, bad badrow.Row) error {
	r.c.badRows.Skip(bad)
	if err := r.tracker.Ack([]offsets.Ticket{row.ticket}, nil); err != nil {
		return r.disorder(err)
	}
	return nil
}
