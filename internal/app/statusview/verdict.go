package statusview

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// Verdict is the first line of status: the connector's state and pace, and how long the slot has left.
func Verdict(st *service.Status, s console.Style) string {
	sign, tint := "✓", console.Green
	switch level := worst(st); {
	case level == alert.Critical:
		sign, tint = "✗", console.Red
	case st.State.Name == relay.Snapshotting && len(st.Waits) == 0:
		sign, tint = "!", console.Yellow // it is not ready, and nothing is wrong
	case !st.Ready && st.State.Name != relay.WaitingForSlot:
		sign, tint = "✗", console.Red
	case level == alert.Warn, troubled(st):
		sign, tint = "!", console.Yellow
	}
	parts := append([]string{what(st)}, pace(st)...)
	if room := slotRoom(st.ReplicationSlot); room != "" {
		parts = append(parts, room)
	}
	if len(st.Gaps) > 0 {
		parts = append(parts, "events may be missing")
	}
	return s.Paint(tint, sign) + " " + fault.Printable(strings.Join(parts, " · "))
}

// troubled reports whether the cause is something that the connector or its slot waits for. It is ready for a while
// longer: http.stall decides, not the first second of an outage.
func troubled(st *service.Status) bool {
	if st.Cause.Code == slotmonitor.CauseOpenTransaction {
		return true
	}
	return slices.ContainsFunc(st.Waits, func(w fault.Wait) bool { return w.Kind == st.Cause.Code })
}

// worst is the highest level of the alerts and of the slot.
func worst(st *service.Status) alert.Level {
	level := alert.OK
	if len(st.Gaps) > 0 {
		level = alert.Critical
	}
	for _, a := range st.Alerts {
		level = max(level, a.Level)
	}
	if st.ReplicationSlot != nil {
		level = max(level, st.ReplicationSlot.Level)
	}
	return level
}

// what is the state, and if it is not ready, the cause.
func what(st *service.Status) string {
	name := strings.ReplaceAll(string(st.State.Name), "_", " ")
	switch {
	case st.State.Name == relay.WaitingForSlot:
		return "waiting: another instance holds the slot"
	case st.Ready && !troubled(st), st.State.Name == relay.Snapshotting && len(st.Waits) == 0:
		return name
	case strings.HasPrefix(strings.ToLower(st.Cause.Sentence), name+" "):
		return short(st.Cause.Sentence)
	case st.Cause.Sentence != "":
		return name + ": " + short(st.Cause.Sentence)
	}
	return name + ": not ready"
}

// short is the first sentence of a text, without its full stop and without the error of another program after it.
func short(text string) string {
	if i := strings.Index(text, ". "); i > 0 {
		text = text[:i]
	}
	if parts := strings.SplitN(text, ": ", 3); len(parts) == 3 {
		text = parts[0] + ": " + parts[1]
	}
	return strings.TrimSuffix(text, ".")
}

func pace(st *service.Status) (parts []string) {
	if p := st.Pace; p != nil && st.State.Name != relay.NotRunning {
		if p.EventsPerSecond != nil {
			parts = append(parts, human.Count(int64(math.Round(*p.EventsPerSecond)))+"/s")
		}
		if p.P99Seconds != nil {
			parts = append(parts, "p99 "+human.Seconds(*p.P99Seconds))
		}
	}
	if left := backlogText(st); left != "" {
		parts = append(parts, left)
	}
	return parts
}

// backlogText is the remaining snapshot or WAL, if that is worth a word.
func backlogText(st *service.Status) string {
	if s := st.Snapshot; s != nil && s.Done < s.Total {
		text := fmt.Sprintf("snapshot %d %%", s.Done*100/s.Total)
		if p := st.Pace; p != nil && p.EventsPerSecond != nil && *p.EventsPerSecond >= 1 {
			text += ", " + seconds(float64(s.Total-s.Done) / *p.EventsPerSecond) + " left"
		}
		return text
	}
	if st.Pace != nil && st.Pace.CatchUpSeconds != nil && st.ReplicationSlot != nil {
		return fmt.Sprintf("%s to read, caught up in %s", human.Bytes(float64(st.ReplicationSlot.UnconfirmedBytes)),
			seconds(*st.Pace.CatchUpSeconds))
	}
	return ""
}

func seconds(s float64) string {
	return human.Duration(time.Duration(max(1, min(s, 1e9)) * float64(time.Second)))
}

// slotRoom is how much may still be written, and how long that lasts.
func slotRoom(s *slotmonitor.Slot) string {
	switch {
	case s == nil:
		return ""
	case s.WALStatus == slotmonitor.WALLost:
		return "slot lost"
	}
	room := "slot without limit"
	if s.SafeBytes != nil {
		room = "slot safe for " + human.Bytes(float64(max(*s.SafeBytes, 0)))
		if *s.SafeBytes <= 0 {
			room = "slot beyond its limit"
		}
	}
	if left := soonest(s.SecondsToLimit, s.SecondsToFull); left != nil {
		room += ", " + seconds(*left) + " at the present growth"
	}
	return room
}

func soonest(a, b *float64) *float64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}
