package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// DB is the primary of the database with the outbox: a *pgxpool.Pool or a *pgx.Conn. A pgx.Tx is none, by its type,
// because its events are not committed.
type DB interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
	QueryRow(ctx context.Context, statement string, args ...any) pgx.Row
}

// ErrSlot means that the slot does not exist, is of no logical decoding, or has lost WAL that it needed: nothing that
// is waited for would come.
var ErrSlot = errors.New("outbox: no relay can read from the slot")

var errNotCommitted = errors.New("outbox: Wait within a transaction that has written: its events are not committed yet")

// Wait returns nil as soon as the relay that reads from slot (postgres.slot in its configuration) has confirmed all
// that was committed before the call, so call it after the commit. It returns most often within 200 ms after the
// broker has acknowledged the events, now and then after a second, and needs no right beyond a connection.
//
// Confirmed means that the broker has acknowledged the record of each event, or that the relay has skipped or
// dead-lettered the event as its configuration says. It does not mean that a consumer has handled it, see Wait of
// package inbox. Nor does the slot know of events that never were in its stream, such as a table that was missing in
// the publication: the relay reports those as gaps.
//
// ctx should have a deadline: Wait's error then says how far the relay is, and whether one runs at all. It returns
// ErrSlot at once. A relay with source: polling has no slot, and marks or deletes the rows that it has published.
func Wait(ctx context.Context, db DB, slot string) error {
	return wait(ctx, slot, func(ctx context.Context, statement string, args []any, into ...any) error {
		return db.QueryRow(ctx, statement, args...).Scan(into...)
	})
}

// WaitSQL is Wait for database/sql, with any Postgres driver.
func WaitSQL(ctx context.Context, db *sql.DB, slot string) error {
	return wait(ctx, slot, func(ctx context.Context, statement string, args []any, into ...any) error {
		return db.QueryRowContext(ctx, statement, args...).Scan(into...)
	})
}

// endOfWAL is a bound for what is committed. The position of the function may be after the header of a page that is
// otherwise empty, 24 or 40 bytes, while the record before it ends with the page before (XLogBytePosToEndRecPtr in
// src/backend/access/transam/xlog.c). No record ends within a header.
const endOfWAL = `SELECT written,
	('0/0'::pg_lsn + (at - CASE WHEN at % size <= 40::numeric THEN at % size ELSE 0::numeric END))::text
FROM (SELECT pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(), '0/0'::pg_lsn) AS at,
	pg_catalog.current_setting('wal_block_size')::numeric AS size,
	pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL AS written) AS wal`

const slotProgress = `SELECT coalesce(confirmed_flush_lsn >= $2::text::pg_lsn, false),
	coalesce(confirmed_flush_lsn::text, ''), active, coalesce(wal_status, ''), slot_type
FROM pg_catalog.pg_replication_slots WHERE slot_name = $1`

const (
	firstLook = 5 * time.Millisecond
	lastLook  = 100 * time.Millisecond
)

type queryRow func(ctx context.Context, statement string, args []any, into ...any) error

func wait(ctx context.Context, slot string, query queryRow) error {
	var end string
	var written bool
	if err := query(ctx, endOfWAL, nil, &written, &end); err != nil {
		return fmt.Errorf("outbox: ask for the end of the WAL: %w", err)
	}
	if written {
		return errNotCommitted
	}
	var at progress
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		next, err := look(ctx, slot, end, query)
		switch {
		case err != nil && ctx.Err() != nil:
			return at.unconfirmed(ctx, slot, end)
		case err != nil || next.confirmed:
			return err
		}
		at = next
		select {
		case <-ctx.Done():
			return at.unconfirmed(ctx, slot, end)
		case <-time.After(pause):
		}
	}
}

// progress is that of a slot.
type progress struct {
	confirmed bool // beyond the position that is waited for
	position  string
	active    bool
}

func look(ctx context.Context, slot, end string, query queryRow) (at progress, err error) {
	var status, kind string
	err = query(ctx, slotProgress, []any{slot, end}, &at.confirmed, &at.position, &at.active, &status, &kind)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return at, fmt.Errorf("%w: %q does not exist on this server", ErrSlot, slot)
	case err != nil:
		return at, fmt.Errorf("outbox: ask for the slot's position: %w", err)
	case kind != "logical":
		return at, fmt.Errorf("%w: %q is a %s slot", ErrSlot, slot, kind)
	case status == "lost":
		return at, fmt.Errorf("%w: %q has lost WAL that it needed", ErrSlot, slot)
	}
	return at, nil
}

func (at progress) unconfirmed(ctx context.Context, slot, end string) error {
	reader := "no relay reads from it at the moment"
	if at.active {
		reader = "a relay reads from it"
	}
	return fmt.Errorf("outbox: the slot %q has confirmed %s, not yet %s, and %s: %w",
		slot, at.position, end, reader, context.Cause(ctx))
}
