package slotmonitor

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/cloud"
)

// The names of Postgres' wal_status (Postgres docs 54.19).
const (
	WALReserved   = "reserved"   // the log it needs lies within max_wal_size
	WALExtended   = "extended"   // beyond max_wal_size, but kept
	WALUnreserved = "unreserved" // beyond max_slot_wal_keep_size: the next checkpoint may remove it
	WALLost       = "lost"       // removed: the slot is useless
)

var walStatuses = []string{WALReserved, WALExtended, WALUnreserved, WALLost}

// Slot is one logical slot as of SampledAt. It is a value; nothing in it changes later.
type Slot struct {
	Name     string `json:"name"`
	Database string `json:"database"`
	Plugin   string `json:"plugin"`

	Active bool    `json:"active"`
	PID    int     `json:"pid,omitempty"`    // of the walsender that serves its reader
	Reader *Reader `json:"reader,omitempty"` // nil: there is no reader, or the role may not see it
	// from the server (17+), otherwise when the monitor first saw it inactive
	InactiveSince *time.Time `json:"inactive_since,omitempty"`
	// It was inactive when the monitor first saw it, and the server (before 17) does not say since when.
	InactiveAtLeast bool `json:"inactive_at_least,omitempty"`
	Synced          bool `json:"synced,omitempty"` // a standby's copy of the primary's slot

	WALStatus          string `json:"wal_status"` // one of the WAL… constants
	InvalidationReason string `json:"invalidation_reason,omitempty"`
	RestartLSN         string `json:"restart_lsn,omitempty"`
	ConfirmedFlushLSN  string `json:"confirmed_flush_lsn,omitempty"`

	// current position − restart_lsn; 0 where nothing is kept any more
	RetainedBytes    int64 `json:"retained_wal_bytes"`
	UnconfirmedBytes int64 `json:"unconfirmed_wal_bytes"` // current position − confirmed_flush_lsn
	// since when confirmed_flush_lsn has not moved, as far as the monitor saw
	ConfirmedSince *time.Time `json:"confirmed_since"`

	// may still be written before the slot is in danger; nil: no limit
	SafeBytes   *int64 `json:"safe_wal_bytes"`
	LimitBytes  *int64 `json:"max_slot_wal_keep_size_bytes"` // max_slot_wal_keep_size; nil: no limit
	VolumeBytes *int64 `json:"wal_volume_bytes,omitempty"`   // as configured; nil: not known
	VolumeUsed  *int64 `json:"wal_volume_used_bytes,omitempty"`
	// of the part of RetainedBytes that stays: what a reader that is behind has not confirmed, or
	// all of it where an open transaction holds restart_lsn; 0: the slot keeps up; nil: not known yet
	GrowthPerSecond *float64 `json:"growth_bytes_per_second"`
	Growth15m       *float64 `json:"growth_bytes_per_second_15m"` // over the last fifteen minutes; nil: not known yet
	// at this growth; nil: no limit, not growing or not known
	SecondsToLimit *float64 `json:"seconds_to_limit"`
	// until the volume of pg_wal is full; nil as SecondsToLimit
	SecondsToFull *float64 `json:"seconds_to_full,omitempty"`

	// the oldest open transaction of the server, when it is old enough to matter
	HeldBy *Transaction `json:"held_by,omitempty"`
	// it and the next ones that are, the oldest first: each of them holds the log back in its turn
	Open  []Transaction `json:"open_transactions,omitempty"`
	Stats *Stats        `json:"decoding,omitempty"`

	Cause  alert.Cause   `json:"cause"`
	Level  alert.Level   `json:"level"` // the worst of Alerts
	Alerts []alert.Alert `json:"alerts,omitempty"`

	SampledAt time.Time `json:"sampled_at"`

	tooth   int64         // of RetainedBytes: what the next step of restart_lsn frees, where the slot keeps up
	kept    bool          // WAL is held back from restart_lsn on
	service cloud.Service // that the server belongs to
}

// Reader is who reads a slot.
type Reader struct {
	Application string     `json:"application,omitempty"`
	Client      string     `json:"client,omitempty"`
	Since       *time.Time `json:"since,omitempty"`    // when its session began
	HeardAt     *time.Time `json:"heard_at,omitempty"` // its last status update
}

// Stats is what decoding for the slot has done since the statistics were reset. Spilled is what did not fit into
// logical_decoding_work_mem and went to disk until the commit; streamed, what went to a reader that takes transactions
// in progress instead.
type Stats struct {
	SpilledTransactions  int64 `json:"spilled_transactions"`
	SpilledBytes         int64 `json:"spilled_bytes"`
	StreamedTransactions int64 `json:"streamed_transactions"`
	StreamedBytes        int64 `json:"streamed_bytes"`
	DecodedTransactions  int64 `json:"decoded_transactions"`
	DecodedBytes         int64 `json:"decoded_bytes"`
}

// Transaction is one that has written and is not over: no slot's restart_lsn moves past its beginning.
type Transaction struct {
	PID         int           `json:"pid,omitempty"` // 0: prepared, no session belongs to it
	GID         string        `json:"gid,omitempty"` // of a prepared one
	Database    string        `json:"database"`
	User        string        `json:"user,omitempty"`
	Application string        `json:"application,omitempty"`
	State       string        `json:"state,omitempty"`
	Age         time.Duration `json:"age_ns"`
	// the role may not see when it began: Age counts from when the monitor saw it first
	AtLeast    bool       `json:"at_least,omitempty"`
	QueryStart *time.Time `json:"query_start,omitempty"` // of its present or last statement
	Since      time.Time  `json:"since"`
	Next       string     `json:"next"`               // how to end it
	Commands   []string   `json:"commands,omitempty"` // what to paste for it
}

// String names the transaction without its query, which may hold data.
func (t Transaction) String() string {
	age := human.Duration(t.Age)
	if t.AtLeast {
		age = "at least " + age
	}
	if t.PID == 0 {
		return fmt.Sprintf("prepared transaction %q in database %q, open for %s", t.GID, t.Database, age)
	}
	text := fmt.Sprintf("the transaction of pid %d (application %q, database %q), open for %s", t.PID, t.Application,
		t.Database, age)
	if t.QueryStart != nil {
		text += ", its last statement began at " + human.Time(*t.QueryStart)
	}
	return text
}
