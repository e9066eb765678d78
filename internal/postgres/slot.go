package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"

	"github.com/jackc/pgx/v5"
)

// Querier is what the catalog readers need of a connection: *pgx.Conn, *pgxpool.Pool and pgx.Tx have it. A replication
// connection works as well when pgx is configured to use the simple protocol, the only one a walsender speaks.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// The names of Postgres' wal_status (Postgres docs 54.19).
const (
	WALReserved   = "reserved"   // the WAL the slot needs lies within max_wal_size
	WALExtended   = "extended"   // beyond max_wal_size, but kept
	WALUnreserved = "unreserved" // beyond max_slot_wal_keep_size: the next checkpoint may remove it
	WALLost       = "lost"       // removed: the slot is useless
)

// Slot is one replication slot as pg_replication_slots shows it. What a server's version does not know stays zero.
type Slot struct {
	Name     string
	Exists   bool // false: no slot of that name in the cluster; everything else is zero
	Logical  bool
	Plugin   string
	Database string

	Temporary bool
	TwoPhase  bool
	Failover  bool // 17+: copied to standbys
	Synced    bool // 17+: this is such a copy, of no use until the standby is promoted
	ActivePID int  // backend that reads from it, 0: none

	RestartLSN     lsn.LSN // oldest WAL the server keeps for it; 0 when it keeps none
	ConfirmedFlush lsn.LSN

	WALStatus          string    // one of the WAL… constants, empty where the server says nothing
	SafeWALSize        *int64    // bytes that may still be written before the slot is in danger; nil: no limit
	InactiveSince      time.Time // 17+
	InvalidationReason string    // 17+
	Conflicting        bool      // 16+: invalidated; from 17 on by recovery on a standby, in 16 by anything
}

// Invalidated reports whether the server has removed WAL or rows the slot needs: nothing brings it back.
func (s Slot) Invalidated() bool {
	return s.WALStatus == WALLost || s.InvalidationReason != "" || s.Conflicting
}

// RunsOut reports whether a slot is about to be lost: it is beyond max_slot_wal_keep_size, or less than a quarter of
// that is left. safe is safe_wal_size, limit the setting in bytes; nil: there is no limit.
func RunsOut(walStatus string, safe, limit *int64) bool {
	switch walStatus {
	case WALUnreserved:
		return true
	case WALExtended:
		return limit != nil && safe != nil && *safe < *limit/4
	}
	return false
}

// slotRow is the row as JSON. Reading it so lets one query serve all versions: a column that the server does not
// have is absent instead of an error.
type slotRow struct {
	SlotName           string     `json:"slot_name"`
	Plugin             *string    `json:"plugin"`
	SlotType           string     `json:"slot_type"`
	Database           *string    `json:"database"`
	Temporary          bool       `json:"temporary"`
	TwoPhase           bool       `json:"two_phase"`
	Failover           bool       `json:"failover"`
	Synced             bool       `json:"synced"`
	ActivePID          *int       `json:"active_pid"`
	RestartLSN         *string    `json:"restart_lsn"`
	ConfirmedFlushLSN  *string    `json:"confirmed_flush_lsn"`
	WALStatus          *string    `json:"wal_status"`
	SafeWALSize        *int64     `json:"safe_wal_size"`
	InactiveSince      *time.Time `json:"inactive_since"`
	InvalidationReason *string    `json:"invalidation_reason"`
	Conflicting        *bool      `json:"conflicting"`
}

// LookupSlot reads one slot, Postgres 14 to 18. No such slot is not an error: Exists is false then. Errors are the
// connection's own.
func LookupSlot(ctx context.Context, q Querier, slot string) (Slot, error) {
	var row []byte
	err := q.QueryRow(ctx, `SELECT to_jsonb(s)::text FROM pg_catalog.pg_replication_slots s WHERE slot_name = $1::text`,
		slot).Scan(&row)
	if errors.Is(err, pgx.ErrNoRows) {
		return Slot{Name: slot}, nil
	}
	if err != nil {
		return Slot{}, fmt.Errorf("read slot %q: %w", slot, err)
	}
	return ParseSlotRow(row)
}

// ParseSlotRow reads a row of pg_replication_slots as to_jsonb prints it, whatever columns the version has.
func ParseSlotRow(row []byte) (Slot, error) {
	var r slotRow
	if err := json.Unmarshal(row, &r); err != nil {
		return Slot{}, fmt.Errorf("read pg_replication_slots: %w", err)
	}
	restart, err := parseSlotLSN(r.RestartLSN)
	if err != nil {
		return Slot{}, fmt.Errorf("read restart_lsn: %w", err)
	}
	confirmed, err := parseSlotLSN(r.ConfirmedFlushLSN)
	if err != nil {
		return Slot{}, fmt.Errorf("read confirmed_flush_lsn: %w", err)
	}
	s := Slot{
		Name: r.SlotName, Exists: true, Logical: r.SlotType == "logical",
		Plugin: orZero(r.Plugin), Database: orZero(r.Database),
		Temporary: r.Temporary, TwoPhase: r.TwoPhase, Failover: r.Failover, Synced: r.Synced,
		ActivePID: orZero(r.ActivePID), RestartLSN: restart, ConfirmedFlush: confirmed,
		WALStatus: orZero(r.WALStatus), SafeWALSize: r.SafeWALSize, InactiveSince: orZero(r.InactiveSince),
		InvalidationReason: orZero(r.InvalidationReason), Conflicting: orZero(r.Conflicting),
	}
	return s, nil
}

func parseSlotLSN(text *string) (lsn.LSN, error) {
	if text == nil {
		return 0, nil
	}
	return lsn.Parse(*text)
}

// orZero reads a nullable column: NULL is the type's zero value.
func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
