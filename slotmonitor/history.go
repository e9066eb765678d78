package slotmonitor

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
)

// heldAfter is the age from which an open transaction is named as holding the log back.
const heldAfter = 10 * time.Second

// longWindow is of the rate that separates a burst from a trend.
const longWindow = 15 * time.Minute

// history remembers what the figures of a slot need besides the latest snapshot.
type history struct {
	least   time.Duration // history that a forecast needs
	volume  int64         // what pg_wal may take; 0: not known
	current uint64
	slots   map[string]*slotHistory

	open map[string]time.Time // when each open transaction was first seen, to count its age where the server hides it
}

type slotHistory struct {
	confirmed     uint64
	still         time.Time // since when confirmed has not moved
	trend         trend
	samples       []sample
	inactiveSince time.Time
	unread        bool // it was inactive when it was first seen
}

type sample struct {
	at    time.Time
	stays int64 // see forecast
}

// newHistory makes a history that forecasts from samples which span so much time at least.
func newHistory(least time.Duration) *history {
	return &history{least: least, slots: map[string]*slotHistory{}}
}

// add takes a snapshot and returns its slots with everything computed and judged. Slots that are not in it are
// forgotten.
func (h *history) add(snap Snapshot, th Thresholds) ([]Slot, error) {
	if snap.Current < h.current {
		// Another server answered: a promoted standby, or a restored one. Differences to before mean nothing.
		h.slots = map[string]*slotHistory{}
	}
	h.current = snap.Current
	open := h.transactions(snap)
	seen := make(map[string]*slotHistory, len(snap.Slots))
	slots := make([]Slot, 0, len(snap.Slots))
	for _, row := range snap.Slots {
		sh := h.slots[row.Name]
		if sh == nil {
			sh = &slotHistory{trend: trend{least: h.least}}
		}
		s, err := sh.add(snap, row, open, h.volume)
		if err != nil {
			return nil, fmt.Errorf("slot %q: %w", row.Name, err)
		}
		s.service = snap.Service
		s.Cause = s.BuyTime(cause(s))
		s.Alerts, s.Level = alert.Fires(judge(s, th, nil))
		seen[row.Name] = sh
		slots = append(slots, s)
	}
	h.slots = seen
	return slots, nil
}

// transactions returns the transactions that are old enough to be worth naming, the oldest first.
func (h *history) transactions(snap Snapshot) []Transaction {
	seen := make(map[string]time.Time, len(snap.Open))
	var old []Transaction
	for i := range snap.Open {
		o := &snap.Open[i]
		key := o.XID + " " + o.GID
		since, ok := h.open[key]
		if !ok {
			since = snap.At
		}
		seen[key] = since
		t := Transaction{
			PID: o.PID, GID: o.GID, Database: o.Database, User: o.User, Application: o.Application,
			State: o.State, QueryStart: o.QueryStart,
		}
		if o.Age != nil {
			t.Age = time.Duration(*o.Age * float64(time.Second))
		} else {
			t.Age, t.AtLeast = snap.At.Sub(since), true
		}
		if t.Age >= heldAfter {
			t.Since = snap.At.Add(-t.Age)
			next := t.remedy()
			t.Next, t.Commands = next.Next, next.Commands
			old = append(old, t)
		}
	}
	h.open = seen
	return old
}

func (sh *slotHistory) add(snap Snapshot, row slotRow, open []Transaction, volume int64) (Slot, error) {
	restart, err := parseLSN(row.RestartLSN)
	if err != nil {
		return Slot{}, err
	}
	confirmed, err := parseLSN(row.ConfirmedFlushLSN)
	if err != nil {
		return Slot{}, err
	}
	s := row.slot(snap.Standby)
	if s.WALStatus == WALLost {
		restart = 0 // nothing is kept, also where the server leaves restart_lsn as it was (idle_timeout, rows_removed)
	}
	s.LimitBytes, s.kept, s.SampledAt = snap.KeepSize, restart != 0, snap.At
	s.InactiveSince = sh.inactive(snap, row)
	s.InactiveAtLeast = s.InactiveSince != nil && row.InactiveSince == nil && sh.unread
	s.RetainedBytes, s.UnconfirmedBytes = distance(snap.Current, restart), distance(snap.Current, confirmed)
	if confirmed < sh.confirmed || !s.kept {
		sh.samples = nil // dropped and made again under the same name, or lost: no growth across that
	}
	if confirmed != sh.confirmed || sh.still.IsZero() {
		sh.still = snap.At
	}
	sh.confirmed = confirmed
	still := sh.still
	s.ConfirmedSince = &still
	if s.Open = open; len(open) > 0 {
		s.HeldBy = &open[0]
	}
	if s.kept {
		sh.forecast(&s, point{snap.At, snap.Current, confirmed, restart})
		s.fill(snap, volume)
	} else {
		sh.trend = trend{least: sh.trend.least}
	}
	if s.SafeBytes != nil {
		s.SafeBytes = ptr(max(0, *s.SafeBytes))
	}
	return s, nil
}

// forecast fills in how fast the log grows that stays, and when the server's limit is reached.
func (sh *slotHistory) forecast(s *Slot, p point) {
	held := s.HeldBy != nil && s.HeldBy.Age >= 2*tooth
	f := sh.trend.add(p, s.watched(), held)
	s.tooth = f.tooth
	if s.GrowthPerSecond = f.growth; f.growth != nil {
		sh.appendSample(sample{p.at, f.stays}, longWindow)
	}
	s.Growth15m = growth(sh.samples, longWindow)
	room := s.SafeBytes
	if room != nil && *room > 0 {
		room = ptr(max(1, *room+int64(f.room)))
	}
	s.SecondsToLimit = secondsUntil(room, f.growth)
}

func ptr[T any](v T) *T { return &v }

// slot takes over what needs no history.
func (row slotRow) slot(standby bool) Slot {
	s := Slot{
		Name: row.Name, Database: row.Database, Plugin: row.Plugin, Active: row.ActivePID != 0, PID: row.ActivePID,
		WALStatus: row.WALStatus, InvalidationReason: row.InvalidationReason,
		Synced:     row.Synced && standby, // on a primary it only says that the slot came with a promotion
		RestartLSN: row.RestartLSN, ConfirmedFlushLSN: row.ConfirmedFlushLSN, SafeBytes: row.SafeWALSize,
	}
	if row.Conflicting && s.InvalidationReason == "" && standby {
		s.InvalidationReason = "conflicting" // 16 says no more, and says it on a primary where WAL was removed
	}
	if s.InvalidationReason != "" {
		s.WALStatus = WALLost
	}
	if r := row.Reader; r != nil && (r.Application != "" || r.Client != "" || r.ReplyTime != nil) {
		s.Reader = &Reader{Application: r.Application, Client: r.Client, Since: r.Since, HeardAt: r.ReplyTime}
	}
	if st := row.Stats; st != nil {
		s.Stats = &Stats{
			SpilledTransactions: st.SpillTxns, SpilledBytes: st.SpillBytes,
			StreamedTransactions: st.StreamTxns,
			StreamedBytes:        st.StreamBytes, DecodedTransactions: st.TotalTxns, DecodedBytes: st.TotalBytes,
		}
	}
	return s
}

// fill is about the disk. No SQL shows how much of it is free, so the size of pg_wal's volume is configured. What lies
// in pg_wal counts as used where the role may look: other slots, archiving and wal_keep_size keep log as well. That
// includes segments that are ready to be written again, some max_wal_size at most, so the answer errs to the early
// side.
func (s *Slot) fill(snap Snapshot, volume int64) {
	if volume <= 0 {
		return
	}
	used := s.RetainedBytes
	if snap.WALFiles != nil {
		used = max(used, *snap.WALFiles)
	}
	left := volume - used
	s.VolumeBytes, s.VolumeUsed = &volume, &used
	s.SecondsToFull = secondsUntil(&left, s.GrowthPerSecond)
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
		sh.inactiveSince, sh.unread = time.Time{}, false
		return nil
	}
	if sh.inactiveSince.IsZero() {
		sh.inactiveSince, sh.unread = snap.At, sh.still.IsZero()
	}
	if row.InactiveSince != nil {
		return row.InactiveSince
	}
	since := sh.inactiveSince
	return &since
}

// appendSample appends the sample and drops the samples before the window.
func (sh *slotHistory) appendSample(s sample, window time.Duration) {
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

// growth compares the low-water marks of the window's two halves: what a reader falls behind and catches up again is
// not a trend. nil until half a window has been seen.
func growth(samples []sample, window time.Duration) *float64 {
	if len(samples) < 2 {
		return nil
	}
	last := samples[len(samples)-1].at
	from := 0
	for last.Sub(samples[from].at) > window {
		from++
	}
	samples = samples[from:]
	first := samples[0].at
	if last.Sub(first) < window/2 {
		return nil
	}
	middle := first.Add(last.Sub(first) / 2)
	early, late := samples[0], samples[len(samples)-1]
	for _, s := range samples {
		if s.at.Before(middle) && s.stays < early.stays {
			early = s
		}
		if !s.at.Before(middle) && s.stays < late.stays {
			late = s
		}
	}
	rate := float64(late.stays-early.stays) / late.at.Sub(early.at).Seconds()
	return &rate
}

// secondsUntil is when so many bytes are used up at this growth. For the server's limit they are safe_wal_size, its own
// answer: it counts whole segments, as the limit does, and wal_keep_size where that is larger. At 0 the slot is in
// danger; it is lost with the first checkpoint after that.
func secondsUntil(left *int64, growth *float64) *float64 {
	if left == nil || growth == nil {
		return nil
	}
	var seconds float64
	switch {
	case *left <= 0:
	case *growth <= 0:
		return nil
	default:
		seconds = float64(*left) / *growth
	}
	return &seconds
}
