package slotmonitor

import (
	"fmt"
	"time"
)

// heldAfter is the age from which an open transaction is named as holding the log back.
const heldAfter = 10 * time.Second

// history remembers what the figures of a slot need besides the latest snapshot.
type history struct {
	window  time.Duration
	current uint64
	slots   map[string]*slotHistory

	oldestKey   string // the oldest transaction, to count its age where the server hides it
	oldestSince time.Time
}

type slotHistory struct {
	confirmed     uint64
	samples       []sample
	inactiveSince time.Time
}

type sample struct {
	at       time.Time
	retained int64
}

func newHistory(window time.Duration) *history {
	return &history{window: window, slots: map[string]*slotHistory{}}
}

// add takes a snapshot and returns its slots with everything computed and judged. Slots that are not in it are
// forgotten.
func (h *history) add(snap Snapshot, th Thresholds) ([]Slot, error) {
	if snap.Current < h.current {
		// Another server answered: a promoted standby, or a restored one. Differences to before mean nothing.
		h.slots = map[string]*slotHistory{}
	}
	h.current = snap.Current
	holder := h.holder(snap)
	seen := make(map[string]*slotHistory, len(snap.Slots))
	slots := make([]Slot, 0, len(snap.Slots))
	for _, row := range snap.Slots {
		sh := h.slots[row.Name]
		if sh == nil {
			sh = &slotHistory{}
		}
		s, err := sh.add(snap, row, h.window)
		if err != nil {
			return nil, fmt.Errorf("slot %q: %w", row.Name, err)
		}
		s.HeldBy = holder
		s.Cause = cause(s)
		s.Alerts, s.Level = judge(s, th)
		seen[row.Name] = sh
		slots = append(slots, s)
	}
	h.slots = seen
	return slots, nil
}

// holder returns the oldest transaction once it is old enough to be worth naming.
func (h *history) holder(snap Snapshot) *Transaction {
	o := snap.Oldest
	if o == nil {
		h.oldestKey = ""
		return nil
	}
	if key := o.XID + " " + o.GID; key != h.oldestKey {
		h.oldestKey, h.oldestSince = key, snap.At
	}
	t := &Transaction{PID: o.PID, GID: o.GID, Database: o.Database, User: o.User, Application: o.Application, State: o.State}
	if o.Age != nil {
		t.Age = time.Duration(*o.Age * float64(time.Second))
	} else {
		t.Age, t.AtLeast = snap.At.Sub(h.oldestSince), true
	}
	if t.Age < heldAfter {
		return nil
	}
	return t
}

func (sh *slotHistory) add(snap Snapshot, row slotRow, window time.Duration) (Slot, error) {
	restart, err := parseLSN(row.RestartLSN)
	if err != nil {
		return Slot{}, err
	}
	confirmed, err := parseLSN(row.ConfirmedFlushLSN)
	if err != nil {
		return Slot{}, err
	}
	s := Slot{
		Name: row.Name, Database: row.Database, Plugin: row.Plugin, Active: row.ActivePID != 0, PID: row.ActivePID,
		WALStatus: row.WALStatus, InvalidationReason: row.InvalidationReason, Synced: row.Synced,
		RestartLSN: row.RestartLSN, ConfirmedFlushLSN: row.ConfirmedFlushLSN,
		SafeBytes: row.SafeWALSize, LimitBytes: snap.KeepSize, kept: restart != 0, SampledAt: snap.At,
	}
	if row.Conflicting && s.InvalidationReason == "" {
		s.InvalidationReason = "conflicting" // 16 says no more
	}
	if s.InvalidationReason != "" {
		s.WALStatus = WALLost
	}
	s.InactiveSince = sh.inactive(snap, row)
	s.RetainedBytes, s.UnconfirmedBytes = distance(snap.Current, restart), distance(snap.Current, confirmed)
	if confirmed < sh.confirmed || !s.kept {
		sh.samples = nil // dropped and made again under the same name, or lost: no growth across that
	}
	sh.confirmed = confirmed
	if s.kept {
		sh.keep(sample{snap.At, s.RetainedBytes}, window)
	}
	s.GrowthPerSecond = growth(sh.samples, window)
	s.SecondsToLimit = secondsToLimit(s.SafeBytes, s.GrowthPerSecond)
	return s, nil
}

// distance is 0 where there is no position, and where it was read after the current one and lies ahead of it.
func distance(current, position uint64) int64 {
	if position == 0 || position > current {
		return 0
	}
	return int64(current - position)
}

func (sh *slotHistory) inactive(snap Snapshot, row slotRow) *time.Time {
	if row.ActivePID != 0 {
		sh.inactiveSince = time.Time{}
		return nil
	}
	if sh.inactiveSince.IsZero() {
		sh.inactiveSince = snap.At
	}
	if row.InactiveSince != nil {
		return row.InactiveSince
	}
	since := sh.inactiveSince
	return &since
}

// keep appends the sample and drops those before the window.
func (sh *slotHistory) keep(s sample, window time.Duration) {
	if n := len(sh.samples); n > 0 && s.at.Before(sh.samples[n-1].at) {
		sh.samples = nil // the server's clock was set back
	}
	sh.samples = append(sh.samples, s)
	drop := 0
	for drop < len(sh.samples) && s.at.Sub(sh.samples[drop].at) > window {
		drop++
	}
	sh.samples = append(sh.samples[:0], sh.samples[drop:]...)
}

// growth compares the low-water marks of the window's two halves. The last value against the first would see growth
// in a healthy slot too: restart_lsn moves in steps (with each running-xacts record, every 15 s on a busy server), so
// retained bytes are a saw-tooth. nil until half a window has been seen.
func growth(samples []sample, window time.Duration) *float64 {
	if len(samples) < 2 {
		return nil
	}
	first, last := samples[0].at, samples[len(samples)-1].at
	if last.Sub(first) < window/2 {
		return nil
	}
	middle := first.Add(last.Sub(first) / 2)
	early, late := samples[0], samples[len(samples)-1]
	for _, s := range samples {
		if s.at.Before(middle) && s.retained < early.retained {
			early = s
		}
		if !s.at.Before(middle) && s.retained < late.retained {
			late = s
		}
	}
	rate := float64(late.retained-early.retained) / late.at.Sub(early.at).Seconds()
	return &rate
}

// secondsToLimit is when the slot runs out of safe log at this growth.
func secondsToLimit(safe *int64, growth *float64) *float64 {
	if safe == nil || growth == nil {
		return nil
	}
	var seconds float64
	switch {
	case *safe <= 0:
	case *growth <= 0:
		return nil
	default:
		seconds = float64(*safe) / *growth
	}
	return &seconds
}
