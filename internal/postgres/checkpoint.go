package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// CheckpointStep is what WAL without events has to amount to before its position is stored. It is more than storing a
// position adds to the WAL, or an idle database would never come to rest.
const CheckpointStep = 512

// LookupConfirmed returns when the slot's position was last written, which is while its connector worked; nil where the
// table has no row of the slot.
func LookupConfirmed(ctx context.Context, q Querier, t identifier.Table, slot string) (*time.Time, error) {
	var at time.Time
	err := q.QueryRow(ctx, fmt.Sprintf(`SELECT updated_at FROM %s WHERE slot = $1::text`, t.SQL()), slot).Scan(&at)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil //nolint:nilnil // there is no moment, and nothing went wrong
	case err != nil:
		return nil, err // callers take some errors for a table that is not there
	}
	return &at, nil
}

// ForgetSQL removes the slot's checkpoint, since another slot takes its name.
func (o Objects) ForgetSQL() string {
	return fmt.Sprintf("DELETE FROM %s WHERE slot = %s;", o.Checkpoint.SQL(), identifier.QuoteLiteral(o.Slot))
}

// Checkpoint is a row of the table: how far a slot is confirmed, and on which server.
type Checkpoint struct {
	SystemID string
	Timeline int32
	Position lsn.LSN
	Writes   int64 // how often it was written; 0: never since there are numbers
}

// ServerPosition is where a server's log is. WALEnd 0 means unknown.
type ServerPosition struct {
	SystemID string
	Timeline int32
	WALEnd   lsn.LSN // on a hot standby, what it has replayed
}

// LookupServerPosition asks the connected server.
func LookupServerPosition(ctx context.Context, q Querier) (p ServerPosition, err error) {
	var end string
	err = q.QueryRow(ctx,
		`SELECT (SELECT system_identifier::text FROM pg_control_system()),
			(SELECT timeline_id FROM pg_control_checkpoint()),
		(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END)::text`).
		Scan(&p.SystemID, &p.Timeline, &end)
	if err == nil {
		p.WALEnd, err = lsn.Parse(end)
	}
	return p, err
}

// LookupCheckpoint reads the slot's row. ok is false where there is none; the table must exist. A position that cannot
// be read is an error, and the rest of the row comes along.
func (o Objects) LookupCheckpoint(ctx context.Context, q Querier) (c Checkpoint, ok bool, err error) {
	var text string
	err = q.QueryRow(ctx, fmt.Sprintf(`SELECT position::text, system_id, timeline FROM %s WHERE slot = $1::text`,
		o.Checkpoint.SQL()), o.Slot).
		Scan(&text, &c.SystemID, &c.Timeline)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, false, nil
	}
	if err == nil {
		c.Position, err = lsn.Parse(text)
	}
	return c, err == nil, err
}

// Judge refuses a slot that is not where the checkpoint says it was left.
func (c Checkpoint) Judge(o Objects, server ServerPosition, slot Slot) error {
	f := &fault.Error{Kind: fault.Operator, Object: o.SlotSubject(), At: c.Position.String()}
	switch {
	case c.SystemID != server.SystemID:
		f.Err = fmt.Errorf("the server is another cluster than the one this slot was last read from: system "+
			"identifier %s, before %s", server.SystemID, c.SystemID)
		f.With(fault.Do("Point postgres.dsn back at the old cluster. After a pg_upgrade, or where all events of "+
			"the old cluster were published, accept the slot.", "cdc-outbox slot accept"))
	case server.WALEnd != 0 && c.Position > server.WALEnd:
		// The row is part of the log that it speaks of, so no crash, no backup and no promotion brings this about.
		f.Err = fmt.Errorf("table %s remembers a position that the server has not written yet, its log ends at %s: "+
			"the row was edited, or copied from another database",
			o.Checkpoint, server.WALEnd)
		f.With(fault.Do("Look at what is known of the slot; if the slot is the right one, accept it.",
			"cdc-outbox slot", "cdc-outbox slot accept"))
	case slot.ConfirmedFlush <= c.Position:
		return nil
	case c.Timeline != server.Timeline && slot.Synced:
		return nil // the standby had the slot's last position before it had the row that says so
	default:
		how := "it was dropped and re-created, moved by hand, or read by something else, or by this with " +
			"postgres.checkpoint off"
		if c.Timeline != server.Timeline {
			how = fmt.Sprintf("the server was promoted (timeline %d, before %d), and the slot there is not the slot "+
				"that was read", server.Timeline, c.Timeline)
		}
		f.Err = fmt.Errorf("it is at %s, beyond the last confirmed position: %s. Events committed between the "+
			"two come through no slot", slot.ConfirmedFlush, how)
		f.With(fault.Do("Look at what is known of the slot, accept it, and start the connector again. Then count "+
			"the events that Kafka does not have, and publish them.",
			"cdc-outbox slot", "cdc-outbox slot accept", "cdc-outbox repair --dry-run", "cdc-outbox repair"))
	}
	return f
}
