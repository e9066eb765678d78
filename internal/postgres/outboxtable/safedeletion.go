package outboxtable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// What may be deleted is decided once, in this order:
//
//  1. A snapshot S is taken. A row whose xmin precedes S's xmin was written by a transaction that was over by then:
//     every transaction that S may have seen running, and each of its subtransactions, has an id that does not precede
//     it. So however old a row's timestamp is, one that was committed later is not among them, be it of a transaction
//     that was open for days or of a prepared one.
//  2. L is where the WAL ends, as inserted, not as written: with synchronous_commit = off a transaction is seen before
//     its commit record is written. A transaction is seen only after its commit record was inserted (xact.c,
//     RecordTransactionCommit), so those records all end at or before L.
//  3. The slot is waited for until it has confirmed L. It confirms no transaction with an event that Kafka has not
//     acknowledged. The slot alone would be a weak witness, since a slot that was re-created or moved is beyond L as
//     well: the checkpoint has to have reached L too, on this server and timeline, and is durable where
//     confirmed_flush_lsn of a server before 17 is not. If the slot falls back later, the WAL that it reads again still
//     has the rows: the table is not asked.
//
// After that the set of rows only shrinks: rows that are inserted or updated later have a later xmin.

// Horizon is what may be deleted.
type Horizon struct {
	Cutoff time.Time // only rows with a timestamp from before
	XMin   string    // only rows of transactions before
	LSN    lsn.LSN   // to be confirmed first

	// where the relay polls, the column that says what Kafka has: it is all that counts, and XMin and LSN are not set
	Published string
}

// emitted is what is written into the WAL while it is waited for the slot, which lags a little over WAL without events.
const emitted = 2 * postgres.CheckpointStep

// TakeHorizon decides which rows may be deleted once the slot has confirmed all of them.
func (r *Rows) TakeHorizon(ctx context.Context, olderThan time.Duration) (h Horizon, err error) {
	if r.cfg.Columns.Timestamp == "" {
		return h, r.timeless("prune", "so no row has an age", "")
	}
	var end string
	err = r.conn.QueryRow(ctx, `SELECT pg_snapshot_xmin(pg_current_snapshot())::xid::text, clock_timestamp()`).
		Scan(&h.XMin, &h.Cutoff)
	if err == nil {
		err = r.conn.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&end)
	}
	if err == nil {
		h.LSN, err = lsn.Parse(end)
	}
	if err != nil {
		return h, postgres.QueryFault("server", err)
	}
	h.Cutoff = h.Cutoff.Add(-olderThan)
	return h, nil
}

// TakePublishedHorizon decides the same where the relay polls: only rows that are marked.
func (r *Rows) TakePublishedHorizon(ctx context.Context, olderThan time.Duration,
	column string,
) (h Horizon, err error) {
	if r.cfg.Columns.Timestamp == "" {
		return h, r.timeless("prune", "so no row has an age", "")
	}
	if _, ok := r.info.Column(column); !ok {
		return h, &fault.Error{
			Kind: fault.Operator, Object: "table " + r.table.String(),
			Err:  fmt.Errorf("it has no column %s, so nothing says what Kafka has", identifier.Quote(column)),
			Next: "Add the column.", Commands: []string{"cdc-outbox setup"},
		}
	}
	h.Published = column
	if err := r.conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&h.Cutoff); err != nil {
		return h, postgres.QueryFault("server", err)
	}
	h.Cutoff = h.Cutoff.Add(-olderThan)
	return h, nil
}

// Below leaves in the rows that are older than the horizon.
func (r *Rows) Below(h Horizon) { r.below = &h }

// where is the horizon as a condition. age() counts from the same id within a statement. A frozen row so old that the
// ids have wrapped half round since seems young, and is left.
func (h *Horizon) where(ts string) string {
	if h.Published != "" {
		return fmt.Sprintf("%s < '%s'::timestamptz AND %s IS NOT NULL", ts, h.Cutoff.UTC().Format(time.RFC3339Nano),
			identifier.Quote(h.Published))
	}
	return fmt.Sprintf("%s < '%s'::timestamptz AND age(xmin) > age('%s'::xid)", ts,
		h.Cutoff.UTC().Format(time.RFC3339Nano), h.XMin)
}

// KeysOnly leaves out the columns that are not part of a row's key.
func (r *Rows) KeysOnly() {
	r.columns = identifier.Quote(r.cfg.Columns.ID) + ", " + identifier.Quote(r.cfg.Columns.Timestamp)
}

// CountBelow counts the rows that may be deleted.
func (r *Rows) CountBelow(ctx context.Context) (n int64, oldest *time.Time, err error) {
	ts := identifier.Quote(r.cfg.Columns.Timestamp)
	err = r.conn.QueryRow(ctx, fmt.Sprintf("SELECT count(*), min(%s) FILTER (WHERE isfinite(%[1]s)) FROM %s WHERE %s",
		ts, r.table.SQL(), r.below.where(ts))).Scan(&n, &oldest)
	if err != nil {
		return 0, nil, postgres.QueryFault("table "+r.table.String(), err)
	}
	return n, oldest, nil
}

// Limit bounds how long a deletion may wait for a lock, and last.
func (r *Rows) Limit(ctx context.Context, lock, statement time.Duration) error {
	for name, d := range map[string]time.Duration{"lock_timeout": lock, "statement_timeout": statement} {
		if _, err := r.conn.Exec(ctx, "SELECT set_config($1, $2, false)", name,
			fmt.Sprintf("%dms", d.Milliseconds())); err != nil {
			return postgres.QueryFault("server", err)
		}
	}
	return nil
}

// Delete deletes what lies below the horizon from one key to another, both included, in a transaction of its own.
func (r *Rows) Delete(ctx context.Context, first, last Key) (int64, error) {
	ts, id := identifier.Quote(r.cfg.Columns.Timestamp), identifier.Quote(r.cfg.Columns.ID)
	t, i := r.info.CastType(r.cfg.Columns.Timestamp), r.info.CastType(r.cfg.Columns.ID)
	sql := fmt.Sprintf(
		`DELETE FROM %s WHERE %s >= $1::%s AND %[2]s <= $3::%[3]s AND (%[2]s, %[4]s) >= ($1::%[3]s, $2::%[5]s)
			AND (%[2]s, %[4]s) <= ($3::%[3]s, $4::%[5]s) AND %[6]s`,
		r.table.SQL(), ts, t, id, i, r.below.where(ts))
	args := [][]byte{[]byte(*first.Timestamp), []byte(first.ID), []byte(*last.Timestamp), []byte(last.ID)}
	for try := 1; ; try++ {
		result := r.conn.PgConn().ExecParams(ctx, sql, args, nil, nil, nil).Read()
		if result.Err == nil {
			return result.CommandTag.RowsAffected(), nil
		}
		switch sqlstate.Of(result.Err) {
		// a lock or the time ran out, or a deadlock: another session is busy with the table
		case sqlstate.LockNotAvailable, sqlstate.QueryCanceled, sqlstate.DeadlockDetected:
			if try < deletions && ctx.Err() == nil {
				continue
			}
		}
		return 0, postgres.QueryFault("table "+r.table.String(), result.Err)
	}
}

// deletions is how often a page is tried whose deletion takes too long.
const deletions = 3

// Description is what has to be known of a table to read its rows elsewhere.
type Description struct {
	Relation                          *pgoutput.Relation
	Types                             map[string]string // by column
	ServerVersion, SystemID, Database string
}

// Describe asks for the columns as Page reads them.
func (r *Rows) Describe(ctx context.Context) (d Description, err error) {
	rows := r.conn.PgConn().ExecParams(ctx, "SELECT * FROM "+r.table.SQL()+" LIMIT 0", nil, nil, nil, nil)
	rows.NextRow()
	d.Relation, d.Types = r.relation(rows.FieldDescriptions()), map[string]string{}
	if _, err = rows.Close(); err == nil {
		err = r.conn.QueryRow(ctx,
			`SELECT current_setting('server_version'), (SELECT system_identifier::text FROM pg_control_system()),
				current_database()`).
			Scan(&d.ServerVersion, &d.SystemID, &d.Database)
	}
	if err != nil {
		return d, postgres.QueryFault("table "+r.table.String(), err)
	}
	for _, c := range r.info.Columns {
		d.Types[c.Name] = c.Type
	}
	return d, nil
}

// AwaitConfirmed waits until the slot, and what is remembered of it, have got to the horizon. Any doubt about the slot
// is an error. With trustSlot the checkpoint is not asked.
func (r *Rows) AwaitConfirmed(ctx context.Context, h Horizon, trustSlot bool, limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; {
		at, read, err := r.confirmed(ctx, trustSlot)
		if err != nil {
			return err
		}
		if at >= h.LSN {
			return nil
		}
		if !time.Now().Before(deadline) {
			f := &fault.Error{
				Kind: fault.Operator, Object: r.cfg.SlotSubject(), At: at.String(),
				Err: fmt.Errorf("it has not confirmed %s within %s: not everything that would be deleted is known "+
					"to be in Kafka. Nothing was deleted", h.LSN, limit),
				Next: "See what the connector waits for, then prune again.", Commands: []string{"cdc-outbox status"},
			}
			if !read {
				f.Err = errors.New("no session reads it, so it is not known whether Kafka has everything that " +
					"would be deleted. Nothing was deleted")
				f.Next = "Start the connector, then prune again."
			}
			return f
		}
		if _, err := r.conn.Exec(ctx, `SELECT pg_catalog.pg_logical_emit_message(true, 'cdc-outbox.prune',
			repeat(' ', $1::int))`,
			emitted); err != nil {
			return postgres.QueryFault("server", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// confirmed returns how far everything is known to be in Kafka.
func (r *Rows) confirmed(ctx context.Context, trustSlot bool) (at lsn.LSN, read bool, err error) {
	ready, err := setup.ReadSlot(ctx, r.conn, r.cfg)
	if err != nil {
		return 0, false, err
	}
	slot := ready.Slot
	if trustSlot {
		return slot.ConfirmedFlush, slot.ActivePID != 0, nil
	}
	server, err := postgres.LookupServerPosition(ctx, r.conn)
	if err != nil {
		return 0, false, postgres.QueryFault("server", err)
	}
	server.WALEnd = 0 // the checkpoint's position is not judged by where the log ends
	kept, err := r.stored(ctx, ready, server)
	return min(kept, slot.ConfirmedFlush), slot.ActivePID != 0, err
}

// stored returns the checkpoint, where it and the slot agree.
func (r *Rows) stored(ctx context.Context, ready setup.SlotState, server postgres.ServerPosition) (lsn.LSN, error) {
	var stored postgres.Checkpoint
	var ok bool
	var err error
	if ready.HasCheckpoint {
		if stored, ok, err = r.cfg.LookupCheckpoint(ctx, r.conn); err != nil {
			return 0, postgres.QueryFault("table "+r.cfg.Checkpoint.String(), err)
		}
	}
	if !ok {
		return 0, &fault.Error{
			Kind: fault.Operator, Object: r.cfg.SlotSubject(),
			Err: errors.New("nothing is remembered of it (postgres.checkpoint), so a slot that was re-created or " +
				"moved by hand would look as if everything were published"),
			Next: "Start the connector once with postgres.checkpoint; `cdc-outbox setup` creates the table. " +
				"Or, where you know that the slot was never re-created or moved, add --trust-slot.",
		}
	}
	if err := stored.Judge(r.cfg.Objects, server, ready.Slot); err != nil {
		return 0, err
	}
	if stored.Timeline != server.Timeline {
		return 0, &fault.Error{
			Kind: fault.Operator, Object: r.cfg.SlotSubject(),
			Err: fmt.Errorf("the server is on timeline %d, and what is remembered of the slot is of timeline %d",
				server.Timeline, stored.Timeline),
			Next: "Start the connector, then prune again.",
		}
	}
	return stored.Position, nil
}
