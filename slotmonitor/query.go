package slotmonitor

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/cloud"
)

// Snapshot is the answer of one tick, as the server gave it.
type Snapshot struct {
	At       time.Time // the server's clock
	Current  uint64    // WAL position: written on a primary, replayed on a standby, where no more can be read
	Standby  bool
	KeepSize *int64 // max_slot_wal_keep_size in bytes; nil: no limit
	Slots    []slotRow
	Open     []transactionRow // that have written, the oldest first; the five oldest are enough to act on

	MayListWAL bool // the role may call pg_ls_waldir()
	Service    cloud.Service
	WALFiles   *int64 // bytes in pg_wal; nil: not asked, or not allowed
}

// snapshotSQL works on Postgres 14 to 18: slots come as JSON, in which a column that the version does not have is
// absent. The position is read after the slots: read before, it could be before a confirmed_flush_lsn.
// pid and backend_xid of other roles' sessions are visible to every role, the rest to pg_read_all_stats only. On a
// standby no transaction has an xid of its own; slots are held back there by the primary's.
const snapshotSQL = `
WITH slots AS MATERIALIZED (
  SELECT coalesce(jsonb_agg(to_jsonb(s) || jsonb_build_object('stats', to_jsonb(st), 'reader', to_jsonb(r))
    ORDER BY s.slot_name), '[]') AS list
    FROM pg_catalog.pg_replication_slots s
    LEFT JOIN pg_catalog.pg_stat_replication_slots st ON st.slot_name = s.slot_name
    LEFT JOIN pg_catalog.pg_stat_replication r ON r.pid = s.active_pid
   WHERE s.slot_type = 'logical' AND ($1::text[] IS NULL OR s.slot_name = ANY ($1::text[]))
), open AS MATERIALIZED (
  SELECT coalesce(jsonb_agg(to_jsonb(o) ORDER BY o.xids DESC), '[]') AS list FROM (
    SELECT pid, '' AS gid, coalesce(datname, '') AS database, coalesce(usename, '') AS user,
      coalesce(application_name, '') AS application,
           coalesce(state, '') AS state, extract(epoch FROM clock_timestamp() - xact_start) AS age, query_start,
             backend_xid::text AS xid, age(backend_xid) AS xids
      FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
    UNION ALL
    SELECT 0, gid, database, owner, '', 'prepared', extract(epoch
      FROM clock_timestamp() - prepared), NULL, transaction::text, age(transaction)
      FROM pg_catalog.pg_prepared_xacts
    ORDER BY xids DESC LIMIT 5) o
)
SELECT jsonb_build_object(
  'slots', slots.list,
  'open', (SELECT list FROM open),
  'standby', pg_is_in_recovery(),
  'may_list_wal', has_function_privilege('pg_catalog.pg_ls_waldir()', 'execute'),
  'keep_mb', (SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = 'max_slot_wal_keep_size'),
  'current', CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
  'at', clock_timestamp())::text
FROM slots`

// walFilesSQL is asked only where it is needed and the role may: a call that is not allowed fails as a whole.
const walFilesSQL = `SELECT coalesce(sum(size), 0)::bigint FROM pg_catalog.pg_ls_waldir()`

// slotRow is a row of pg_replication_slots.
type slotRow struct {
	Name               string     `json:"slot_name"`
	Plugin             string     `json:"plugin"`
	Database           string     `json:"database"`
	ActivePID          int        `json:"active_pid"`
	RestartLSN         string     `json:"restart_lsn"`
	ConfirmedFlushLSN  string     `json:"confirmed_flush_lsn"`
	WALStatus          string     `json:"wal_status"`
	SafeWALSize        *int64     `json:"safe_wal_size"`
	InactiveSince      *time.Time `json:"inactive_since"`      // 17+
	InvalidationReason string     `json:"invalidation_reason"` // 17+
	Conflicting        bool       `json:"conflicting"`         // 16+
	Synced             bool       `json:"synced"`              // 17+
	Stats              *statsRow  `json:"stats"`
	Reader             *readerRow `json:"reader"`
}

// statsRow is the slot's row of pg_stat_replication_slots: what decoding had to spill to disk, since the last
// reset.
type statsRow struct {
	SpillTxns   int64 `json:"spill_txns"`
	SpillBytes  int64 `json:"spill_bytes"`
	StreamTxns  int64 `json:"stream_txns"`
	StreamBytes int64 `json:"stream_bytes"`
	TotalTxns   int64 `json:"total_txns"`
	TotalBytes  int64 `json:"total_bytes"`
}

// readerRow is the walsender's row of pg_stat_replication; all but the pid is NULL for a role without
// pg_read_all_stats.
type readerRow struct {
	Application string     `json:"application_name"`
	Client      string     `json:"client_addr"`
	Since       *time.Time `json:"backend_start"`
	ReplyTime   *time.Time `json:"reply_time"`
}

// transactionRow is a transaction that has written and is not over.
type transactionRow struct {
	PID         int      `json:"pid"`
	GID         string   `json:"gid"`
	Database    string   `json:"database"`
	User        string   `json:"user"`
	Application string   `json:"application"`
	State       string   `json:"state"`
	Age         *float64 `json:"age"` // seconds; nil: not visible to this role
	XID         string   `json:"xid"`

	QueryStart *time.Time `json:"query_start"` // of its present or last statement; nil as Age
}

func parseSnapshot(answer []byte) (Snapshot, error) {
	var a struct {
		Slots   []slotRow        `json:"slots"`
		Open    []transactionRow `json:"open"`
		Standby bool             `json:"standby"`
		MayList bool             `json:"may_list_wal"`
		KeepMB  *int64           `json:"keep_mb"`
		Current string           `json:"current"`
		At      time.Time        `json:"at"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return Snapshot{}, fmt.Errorf("read the answer about slots: %w", err)
	}
	s := Snapshot{At: a.At, Standby: a.Standby, Slots: a.Slots, Open: a.Open, MayListWAL: a.MayList}
	if a.KeepMB != nil && *a.KeepMB >= 0 {
		bytes := *a.KeepMB << 20
		s.KeepSize = &bytes
	}
	var err error
	s.Current, err = parseLSN(a.Current)
	return s, err
}

// parseLSN reads the form Postgres prints; empty, SQL's NULL, is 0.
func parseLSN(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	hi, lo, ok := strings.Cut(text, "/")
	h, errHi := strconv.ParseUint(hi, 16, 32)
	l, errLo := strconv.ParseUint(lo, 16, 32)
	if !ok || errHi != nil || errLo != nil {
		return 0, fmt.Errorf("%q is not an LSN", text)
	}
	return h<<32 | l, nil
}
