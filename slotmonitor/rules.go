package slotmonitor

import (
	"fmt"
	"time"

	"github.com/docker/go-units"
)

// Level is how bad something is; a higher one is worse.
type Level uint8

const (
	OK       Level = iota
	Warn           // somebody should look at it today
	Critical       // somebody should look at it now: the slot is about to be lost, or the disk to fill, or it is lost
)

// String returns the level's name as it appears in logs and JSON.
func (l Level) String() string {
	switch l {
	case Warn:
		return "warn"
	case Critical:
		return "critical"
	}
	return "ok"
}

// MarshalText writes the name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the name.
func (l *Level) UnmarshalText(text []byte) error {
	for _, known := range []Level{OK, Warn, Critical} {
		if string(text) == known.String() {
			*l = known
			return nil
		}
	}
	return fmt.Errorf("%q is not a level", text)
}

// Thresholds are where the rules begin to fire.
type Thresholds struct {
	WarnRetained, CriticalRetained       int64         // bytes of WAL held back; 0: never
	WarnTimeToLimit, CriticalTimeToLimit time.Duration // until max_slot_wal_keep_size at the present growth; 0: never
}

// Alert is a rule that fires.
type Alert struct {
	Rule     string `json:"alert"`
	Level    Level  `json:"level"`
	Sentence string `json:"sentence"`
}

// rule judges one slot: OK and nothing, or a level and one sentence with the figures. It is pure. What a rule is
// called is the value of a label and of a webhook's field, so names stay.
type rule struct {
	name  string
	judge func(Slot, Thresholds) (Level, string)
}

var rules = []rule{
	{"slot_lost", judgeLost},
	{"slot_unreserved", judgeUnreserved},
	{"slot_extended", judgeExtended},
	{"slot_time_to_limit", judgeTimeToLimit},
	{"slot_retained_wal", judgeRetained},
}

// judge applies every rule; the worst alert comes first.
func judge(s Slot, th Thresholds) ([]Alert, Level) {
	var alerts []Alert
	worst := OK
	for _, r := range rules {
		level, sentence := r.judge(s, th)
		if level == OK {
			continue
		}
		a := Alert{Rule: r.name, Level: level, Sentence: sentence}
		if level > worst {
			worst = level
			alerts = append([]Alert{a}, alerts...)
			continue
		}
		alerts = append(alerts, a)
	}
	return alerts, worst
}

func judgeLost(s Slot, _ Thresholds) (Level, string) {
	if s.WALStatus != WALLost {
		return OK, ""
	}
	reason := "it held back more WAL than max_slot_wal_keep_size allows"
	switch s.InvalidationReason {
	case "rows_removed", "conflicting":
		reason = "recovery on the standby removed what it needs"
	case "wal_level_insufficient":
		reason = "wal_level was set below logical"
	case "idle_timeout":
		reason = "it was idle for longer than idle_replication_slot_timeout"
	}
	return Critical, fmt.Sprintf("The slot is lost: %s. It can never be read again.", reason)
}

func judgeUnreserved(s Slot, _ Thresholds) (Level, string) {
	if s.WALStatus != WALUnreserved {
		return OK, ""
	}
	return Critical, fmt.Sprintf("The slot holds back %s, more than max_slot_wal_keep_size: the next checkpoint may remove WAL it needs and lose it.", size(s.RetainedBytes))
}

// judgeExtended is silent without a limit: there, "extended" says no more than that max_wal_size was exceeded.
func judgeExtended(s Slot, _ Thresholds) (Level, string) {
	if s.WALStatus != WALExtended || s.LimitBytes == nil {
		return OK, ""
	}
	return Warn, fmt.Sprintf("The slot holds back %s, more than max_wal_size; at max_slot_wal_keep_size (%s) it is lost.", size(s.RetainedBytes), size(*s.LimitBytes))
}

func judgeTimeToLimit(s Slot, th Thresholds) (Level, string) {
	if s.SecondsToLimit == nil || s.WALStatus == WALLost {
		return OK, ""
	}
	left := time.Duration(min(*s.SecondsToLimit, 1e9) * float64(time.Second))
	sentence := fmt.Sprintf("At the present growth the slot reaches max_slot_wal_keep_size in %s and is lost.", left.Round(time.Second))
	switch {
	case th.CriticalTimeToLimit > 0 && left <= th.CriticalTimeToLimit:
		return Critical, sentence
	case th.WarnTimeToLimit > 0 && left <= th.WarnTimeToLimit:
		return Warn, sentence
	}
	return OK, ""
}

func judgeRetained(s Slot, th Thresholds) (Level, string) {
	switch {
	case th.CriticalRetained > 0 && s.RetainedBytes >= th.CriticalRetained:
		return Critical, fmt.Sprintf("The slot holds back %s of WAL, the critical threshold is %s.", size(s.RetainedBytes), size(th.CriticalRetained))
	case th.WarnRetained > 0 && s.RetainedBytes >= th.WarnRetained:
		return Warn, fmt.Sprintf("The slot holds back %s of WAL, the warning threshold is %s.", size(s.RetainedBytes), size(th.WarnRetained))
	}
	return OK, ""
}

// cause says in one sentence why log is held back. The two positions tell it apart: restart_lsn behind
// confirmed_flush_lsn waits for a transaction to end, confirmed_flush_lsn behind the present waits for the reader.
func cause(s Slot) string {
	const little = 1 << 20
	switch {
	case s.WALStatus == WALLost:
		return ""
	case s.Synced:
		return "It is a standby's copy and moves with the primary's slot."
	case s.HeldBy != nil && s.RetainedBytes >= little && s.UnconfirmedBytes < s.RetainedBytes/2:
		return "Held back by " + s.HeldBy.String() + "."
	case !s.Active && s.InactiveSince != nil:
		return fmt.Sprintf("Nobody has read the slot since %s (%s).", s.InactiveSince.UTC().Format(time.RFC3339),
			max(0, s.SampledAt.Sub(*s.InactiveSince)).Round(time.Second))
	case s.UnconfirmedBytes >= little:
		return fmt.Sprintf("Its reader (pid %d) has %s left to confirm.", s.PID, size(s.UnconfirmedBytes))
	}
	return ""
}

func size(bytes int64) string { return units.BytesSize(float64(bytes)) }
