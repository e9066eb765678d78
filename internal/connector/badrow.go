package connector

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/replication/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// errHalted keeps the reader at a row until the process is asked to stop. Acknowledgements and status updates go on
// meanwhile, so that the slot moves up to the row's transaction and the server does not drop the connection.
var errHalted = errors.New("halted")

// passOver is all that helps the row itself: it is read from the log, which nobody can correct.
const passOver = "If that is a setting, restart with it, and the row is read again. Else correcting or deleting this row in the table does not help: the log holds it as it was written. To go on without losing it: restart with " +
	"--router-on-bad-row dead_letter, then correct it with cdc-outbox dead-letter retry. To pass over it: restart with --router-on-bad-row skip " +
	"(skips every such row: remove it again afterwards); then insert it again, corrected."

// badRow applies the policy to a row that cannot become a record.
func (c *Connector) badRow(t *offsets.Tracker, m *pgoutput.Message, pos offsets.Position, ticket offsets.Ticket, err error) error {
	var row *router.RowError
	if !errors.As(err, &row) {
		return c.disorder(err)
	}
	c.cfg.Metrics.Failed("", string(row.Reason))
	set := setting{id: row.EventID, reason: row.Reason}
	fields := c.rowFields(pos, row.EventID, row.Reason, row.Error())
	switch c.cfg.Policies.For(row.Reason) {
	case relay.Skip:
		return c.skip(t, pos, ticket, set, fields)
	case relay.DeadLetter:
		detail := row.Detail
		if row.Column != "" {
			detail = "column " + row.Column + ": " + detail
		}
		k := c.caseOf(m, row.Reason, detail)
		return c.deadLetter(c.cfg.DeadLetters.Letter(k, time.Now()), pos, ticket, set, fields)
	}
	next := row.Remedy + " " + passOver
	fields = append(fields, zap.String(telemetry.KeyNext, next))
	c.log.Error("Halted at an outbox row that cannot be published; nothing after it is published either", fields...)
	c.setHalted(&relay.HaltedRow{
		Position: string(c.reader.position), LSN: pos.Commit.String(), EventID: row.EventID,
		Reason: string(row.Reason), Message: row.Error(), Next: next, Since: time.Now(),
	})
	c.reader.halted = &pos
	c.producer.Commit()
	return errHalted
}

// rowFields name a row in the log without anything of its payload.
func (c *Connector) rowFields(pos offsets.Position, id string, reason router.Reason, cause string) []zap.Field {
	return []zap.Field{
		zap.String(telemetry.KeyEvent, id), zap.String(telemetry.KeyLSN, pos.Commit.String()),
		zap.ByteString(telemetry.KeyPosition, c.reader.position), zap.String(telemetry.KeyReason, string(reason)),
		zap.String(telemetry.KeyCause, cause),
	}
}

// setting is the row that a policy sets aside.
type setting struct {
	id     string
	reason router.Reason
	topic  string // the one it was meant for, where it had one
}

func (c *Connector) skip(t *offsets.Tracker, pos offsets.Position, ticket offsets.Ticket, set setting, fields []zap.Field) error {
	c.log.Error("Skipped an outbox row that cannot be published, as router.on_bad_row says", fields...)
	c.counts.skipped.Add(1)
	c.noteBadRow(set, relay.Skip, pos.Commit.String())
	if err := t.Ack([]offsets.Ticket{ticket}, nil); err != nil {
		return c.disorder(err)
	}
	return nil
}

// noteBadRow keeps it for /status.
func (c *Connector) noteBadRow(set setting, action relay.Policy, lsn string) {
	c.badRows.Add(relay.BadRow{
		EventID: set.id, Action: action, Reason: string(set.reason), Topic: set.topic, LSN: lsn, At: time.Now().UTC(),
	})
}
