package slotmonitor

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
)

// Thresholds are where the rules begin to fire. 0 switches one off.
type Thresholds struct {
	WarnRetained, CriticalRetained int64 // bytes of WAL held back
	// until the slot is in danger, or the volume full, at the present growth
	WarnTimeToLimit, CriticalTimeToLimit time.Duration
	Inactive                             time.Duration // no process reads the slot
	Still                                time.Duration // the reader confirms nothing
	StillBytes                           int64         // while at least so much waits to be confirmed
}

// DefaultThresholds are the thresholds that the documentation names.
var DefaultThresholds = Thresholds{
	WarnRetained: 1 << 30, CriticalRetained: 10 << 30, WarnTimeToLimit: time.Hour,
	CriticalTimeToLimit: 10 * time.Minute,
	Inactive:            time.Minute, Still: time.Minute, StillBytes: 16 << 20,
}

// rule judges one slot: OK and nothing, or a level and one sentence with the figures. It is pure. now is the level at
// which it fires already: sizes move to and fro around a threshold, so one that fires goes on until a fifth less is
// reached. What a rule is called is the value of a label and of a webhook's field, so names stay.
type rule struct {
	name  string
	judge func(s Slot, th Thresholds, now alert.Level) (alert.Level, string)
}

var rules = []rule{
	{lost, judgeLost},
	{unreserved, judgeUnreserved},
	{extended, judgeExtended},
	{timeToLimit, judgeTimeToLimit},
	{"slot_time_to_full", judgeTimeToFull},
	{"slot_retained_wal", judgeRetained},
	{"slot_inactive", judgeInactive},
	{"slot_not_advancing", judgeStill},
}

// What wal_status says, from bad to mild.
const (
	lost       = "slot_lost"
	unreserved = "slot_unreserved"
	extended   = "slot_extended"

	timeToLimit = "slot_time_to_limit"
)

// supersedes lists the alerts that replace another one about the same slot: nothing else is wrong with a lost slot, and
// a slot beyond max_slot_wal_keep_size is beyond max_wal_size as well, and has no time left until the limit.
func supersedes(name string) []string {
	switch name {
	case lost:
		return nil
	case extended, timeToLimit:
		return []string{lost, unreserved}
	}
	return []string{lost}
}

func noLonger(slot string) string { return fmt.Sprintf("The slot %q does not exist any more.", slot) }

// Rules lists the alerts of the monitor's own, whether they fire or not.
func Rules() []string {
	names := []string{alert.Blind}
	for _, r := range rules {
		names = append(names, r.name)
	}
	return names
}

// judge applies every rule; now, which may be nil, is what fires already.
func judge(s Slot, th Thresholds, now func(rule, slot string) alert.Level) []alert.Finding {
	found := make([]alert.Finding, 0, len(rules))
	for _, r := range rules {
		before := alert.OK
		if now != nil {
			before = now(r.name, s.Name)
		}
		level, sentence := r.judge(s, th, before)
		found = append(found, alert.Finding{Alert: r.name, Subject: s.Name, Level: level, Sentence: sentence})
	}
	return found
}

// above grades a value by two thresholds, for one that is bad when large.
func above(value, warn, critical int64, now alert.Level) alert.Level {
	reached := func(threshold int64, level alert.Level) bool {
		if now >= level {
			threshold -= threshold / 5
		}
		return threshold > 0 && value >= threshold
	}
	switch {
	case reached(critical, alert.Critical):
		return alert.Critical
	case reached(warn, alert.Warn):
		return alert.Warn
	}
	return alert.OK
}

func judgeLost(s Slot, _ Thresholds, _ alert.Level) (alert.Level, string) {
	if s.WALStatus != WALLost {
		return alert.OK, ""
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
	if s.Synced {
		return alert.Critical, fmt.Sprintf("The standby's copy of the slot is lost: %s. A promotion now would lose "+
			"the slot.", reason)
	}
	return alert.Critical, fmt.Sprintf("The slot is lost: %s. It can never be read again.", reason)
}

func judgeUnreserved(s Slot, _ Thresholds, _ alert.Level) (alert.Level, string) {
	if s.WALStatus != WALUnreserved {
		return alert.OK, ""
	}
	return alert.Critical, fmt.Sprintf("The slot holds back %s, more than max_slot_wal_keep_size: the next "+
		"checkpoint may remove WAL it needs and lose it.", size(s.RetainedBytes))
}

// judgeExtended is silent without a limit: there, "extended" says no more than that max_wal_size was exceeded.
func judgeExtended(s Slot, _ Thresholds, _ alert.Level) (alert.Level, string) {
	if s.WALStatus != WALExtended || s.LimitBytes == nil {
		return alert.OK, ""
	}
	return alert.Warn, fmt.Sprintf("The slot holds back %s, more than max_wal_size; at max_slot_wal_keep_size (%s) "+
		"it is lost.", size(s.RetainedBytes), size(*s.LimitBytes))
}

// judgeTimeToLimit is silent about a slot beyond the limit: slot_unreserved says so.
func judgeTimeToLimit(s Slot, th Thresholds, now alert.Level) (alert.Level, string) {
	if s.WALStatus == WALLost || s.WALStatus == WALUnreserved {
		return alert.OK, ""
	}
	return soon(s.SecondsToLimit, th, now,
		"At the present growth the slot reaches max_slot_wal_keep_size in %s; the first checkpoint after that "+
			"loses it.")
}

// judgeTimeToFull also looks where there is a limit: it may be larger than the disk.
func judgeTimeToFull(s Slot, th Thresholds, now alert.Level) (alert.Level, string) {
	return soon(s.SecondsToFull, th, now,
		"At the present growth the volume of pg_wal is full in %s, and the server stops.")
}

func soon(seconds *float64, th Thresholds, now alert.Level, sentence string) (alert.Level, string) {
	if seconds == nil {
		return alert.OK, ""
	}
	left := time.Duration(min(*seconds, 1e9) * float64(time.Second))
	within := func(threshold time.Duration, level alert.Level) bool {
		if now >= level {
			threshold += threshold / 4
		}
		return threshold > 0 && left <= threshold
	}
	if left < time.Second {
		sentence = fmt.Sprintf(sentence, "less than a second")
	} else {
		sentence = fmt.Sprintf(sentence, human.Duration(left.Round(time.Second)))
	}
	switch {
	case within(th.CriticalTimeToLimit, alert.Critical):
		return alert.Critical, sentence
	case within(th.WarnTimeToLimit, alert.Warn):
		return alert.Warn, sentence
	}
	return alert.OK, ""
}

// judgeRetained leaves out the present step of restart_lsn: on a server that writes 100 MB/s it is more than a
// gibibyte in a slot that keeps up.
func judgeRetained(s Slot, th Thresholds, now alert.Level) (alert.Level, string) {
	if s.WALStatus == WALLost {
		return alert.OK, ""
	}
	level := above(s.RetainedBytes-s.tooth, th.WarnRetained, th.CriticalRetained, now)
	switch level {
	case alert.Critical:
		return level, fmt.Sprintf("The slot holds back %s of WAL, the critical threshold is %s.", size(s.RetainedBytes),
			size(th.CriticalRetained))
	case alert.Warn:
		return level, fmt.Sprintf("The slot holds back %s of WAL, the warning threshold is %s.", size(s.RetainedBytes),
			size(th.WarnRetained))
	}
	return alert.OK, ""
}

// judgeInactive is silent about a standby's copy, which has no reader, and about a slot that holds back nothing any
// more.
func judgeInactive(s Slot, th Thresholds, _ alert.Level) (alert.Level, string) {
	if s.Active || s.Synced || !s.kept || s.WALStatus == WALLost || s.InactiveSince == nil || th.Inactive <= 0 {
		return alert.OK, ""
	}
	age := s.SampledAt.Sub(*s.InactiveSince)
	if age < th.Inactive {
		return alert.OK, ""
	}
	if age < 2*Between { // first seen now
		return alert.Warn, fmt.Sprintf("No session reads the slot; it holds back %s of WAL, which grows with "+
			"everything that is written.", size(s.RetainedBytes))
	}
	least := ""
	if s.InactiveAtLeast {
		least = "at least "
	}
	return alert.Warn, fmt.Sprintf("No session has read the slot for %s%s; it holds back %s of WAL, which grows with "+
		"everything that is written.", least, human.Duration(age), size(s.RetainedBytes))
}

// judgeStill is about a reader that is there and confirms nothing, while more waits than moves between two keepalives.
func judgeStill(s Slot, th Thresholds, now alert.Level) (alert.Level, string) {
	if !s.Active || s.ConfirmedSince == nil || th.Still <= 0 ||
		above(s.UnconfirmedBytes, th.StillBytes, 0, now) == alert.OK {
		return alert.OK, ""
	}
	age := s.SampledAt.Sub(*s.ConfirmedSince)
	if age < th.Still {
		return alert.OK, ""
	}
	return alert.Warn, fmt.Sprintf("The slot's reader has confirmed nothing for %s, and %s of WAL wait.",
		human.Duration(age), size(s.UnconfirmedBytes))
}

func size(bytes int64) string { return human.Bytes(float64(bytes)) }
