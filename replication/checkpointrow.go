package replication

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// upsertSQL is the statement that begins a row, or goes on with it. It takes over a row of another timeline, whose
// position means nothing on this one. It does not count as a write: a server that was put back must not catch up with
// its number by being connected to.
func (cp *checkpoint) upsertSQL(position lsn.LSN) string {
	return fmt.Sprintf(`INSERT INTO %[1]s (slot, system_id, timeline, position) VALUES (%[2]s, %[3]s, %[4]d, '%[5]s')
		ON CONFLICT (slot) DO UPDATE SET timeline = %[4]d, updated_at = now(), position =
			CASE WHEN %[1]s.timeline = %[4]d THEN greatest(%[1]s.position, '%[5]s') ELSE '%[5]s' END`,
		cp.cfg.Checkpoint.SQL(), identifier.QuoteLiteral(cp.cfg.Slot), identifier.QuoteLiteral(cp.id.SystemID),
		cp.id.Timeline, position)
}

// read returns the slot's row, nil if there is none, and the end of the log by then.
func (cp *checkpoint) read(ctx context.Context, c *connection) (*postgres.Checkpoint, lsn.LSN, error) {
	fields, err := c.query(ctx, fmt.Sprintf(`SELECT (SELECT to_jsonb(m)::text FROM %s m WHERE slot = %s),
		CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END`,
		cp.cfg.Checkpoint.SQL(), identifier.QuoteLiteral(cp.cfg.Slot)), 2)
	if err != nil {
		return nil, 0, err
	}
	cp.numbered = true // if there is no row, the first write shows whether the table has the column
	end, err := lsn.Parse(string(fields[1]))
	if err != nil {
		return nil, 0, err
	}
	if fields[0] == nil {
		return nil, end, nil
	}
	row, err := cp.parse(fields[0])
	return row, end, err
}

// parse reads a row as JSON, which has no writes if the table is an earlier version's.
func (cp *checkpoint) parse(text []byte) (*postgres.Checkpoint, error) {
	var row struct {
		SystemID string `json:"system_id"`
		Timeline int32  `json:"timeline"`
		Position string `json:"position"`
		Writes   *int64 `json:"writes"`
	}
	if err := json.Unmarshal(text, &row); err != nil {
		return nil, cp.unreadable(err)
	}
	kept, err := lsn.Parse(row.Position)
	if err != nil {
		return nil, cp.unreadable(fmt.Errorf("its position of this slot is %q", row.Position))
	}
	cp.numbered = row.Writes != nil
	c := &postgres.Checkpoint{SystemID: row.SystemID, Timeline: row.Timeline, Position: kept}
	if cp.numbered {
		c.Writes = *row.Writes
	}
	return c, nil
}

// unreadable is for a row that no connector has written.
func (cp *checkpoint) unreadable(err error) error {
	return &fault.Error{
		Kind: fault.Operator, Object: "table " + cp.cfg.Checkpoint.String(),
		Err: fmt.Errorf("it is not one that remembers slots, or was edited: %w", err),
		Next: "Set postgres.checkpoint to a table that `cdc-outbox setup` creates. If this is the right " +
			"table, accept the slot's current position.",
		Commands: []string{"cdc-outbox slot accept"},
	}
}
