package slotmonitor

import (
	"fmt"
	"time"
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

	Active        bool       `json:"active"`
	PID           int        `json:"pid,omitempty"`            // of the walsender that serves its reader
	InactiveSince *time.Time `json:"inactive_since,omitempty"` // from the server (17+), else when the monitor first saw it inactive

	WALStatus          string `json:"wal_status"` // one of the WAL… constants
	InvalidationReason string `json:"invalidation_reason,omitempty"`
	RestartLSN         string `json:"restart_lsn,omitempty"`
	ConfirmedFlushLSN  string `json:"confirmed_flush_lsn,omitempty"`

	RetainedBytes    int64        `json:"retained_wal_bytes"`           // current position − restart_lsn; 0 where nothing is kept any more
	UnconfirmedBytes int64        `json:"unconfirmed_wal_bytes"`        // current position − confirmed_flush_lsn
	SafeBytes        *int64       `json:"safe_wal_bytes"`               // may still be written before the slot is in danger; nil: no limit
	LimitBytes       *int64       `json:"max_slot_wal_keep_size_bytes"` // max_slot_wal_keep_size; nil: no limit
	Synced           bool         `json:"synced,omitempty"`             // a standby's copy of the primary's slot
	kept             bool         // restart_lsn is set
	GrowthPerSecond  *float64     `json:"growth_bytes_per_second"` // of RetainedBytes over the last minute; nil: not known yet
	SecondsToLimit   *float64     `json:"seconds_to_limit"`        // at that growth; nil: no limit, not growing or not known
	HeldBy           *Transaction `json:"held_by,omitempty"`       // the oldest open transaction of the server, when it is old enough to matter

	Cause  string  `json:"cause,omitempty"` // why log is held back, one sentence
	Level  Level   `json:"level"`           // the worst of Alerts
	Alerts []Alert `json:"alerts,omitempty"`

	SampledAt time.Time `json:"sampled_at"`
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
	AtLeast     bool          `json:"at_least,omitempty"` // the role may not see when it began: Age counts from when the monitor saw it first
}

// String names the transaction without its query, which may hold data.
func (t Transaction) String() string {
	age := t.Age.Round(time.Second).String()
	if t.AtLeast {
		age = "at least " + age
	}
	if t.PID == 0 {
		return fmt.Sprintf("prepared transaction %q in database %q, open for %s", t.GID, t.Database, age)
	}
	return fmt.Sprintf("the transaction of pid %d (application %q, database %q), open for %s", t.PID, t.Application, t.Database, age)
}
