package slotmonitor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAlertsTellEachChangeOnce(t *testing.T) {
	a := newAlerts(time.Hour)
	now := start
	step := func(after time.Duration, level Level) []Event {
		now = now.Add(after)
		return a.add([]Finding{{Alert: "x", Slot: "s", Level: level, Sentence: level.String() + "!"}}, now)
	}
	require.Empty(t, step(0, OK), "a healthy slot is nothing to tell")
	got := step(time.Second, Warn)
	require.Equal(t, []Event{{Alert: "x", Slot: "s", State: Firing, Level: Warn, Sentence: "warn!", Since: now, At: now}}, got, "worse is told at once")
	began := now
	require.Empty(t, step(time.Second, Warn))
	got = step(time.Second, Critical)
	require.Len(t, got, 1)
	require.Equal(t, Critical, got[0].Level)
	require.Equal(t, Warn, got[0].Before)
	require.Equal(t, began, got[0].Since)
	for range calmTicks - 1 {
		require.Empty(t, step(time.Second, OK), "better only when it stays so")
	}
	require.Empty(t, step(time.Second, Critical), "it was not calm")
	for range calmTicks - 1 {
		require.Empty(t, step(time.Second, OK))
	}
	require.Equal(t, []string{"x"}, names(a.list()))
	got = step(time.Second, OK)
	require.Equal(t, []Event{{Alert: "x", Slot: "s", State: Resolved, Level: Critical, Before: Critical, Sentence: "critical!", Since: began, At: now}}, got)
	require.Empty(t, step(time.Second, OK))
	require.Empty(t, names(a.list()))
}

func TestAlertsGetMilderAfterACalm(t *testing.T) {
	a := newAlerts(time.Hour)
	var told []Level
	for _, level := range []Level{Critical, Warn, Warn, Warn, Warn, Warn, Warn, Warn, OK} {
		for _, e := range a.add([]Finding{{Alert: "x", Level: level}}, start) {
			told = append(told, e.Level)
		}
	}
	require.Equal(t, []Level{Critical, Warn}, told)
}

// What ends because it has got worse must not read as if all were well.
func TestAlertsAreSupersededByWorseOnes(t *testing.T) {
	a := newAlerts(time.Hour)
	told := map[string]string{}
	step := func(status string) {
		for _, slot := range []string{"s", "well"} {
			s := Slot{Name: slot, WALStatus: WALReserved, LimitBytes: ptr(int64(1 << 30)), SecondsToFull: ptr(60.0)}
			if slot == "s" {
				s.WALStatus = status
			}
			for _, e := range a.add(judge(s, DefaultThresholds, a.level), start) {
				told[e.Slot+" "+e.Alert] = string(e.State) + " " + e.SupersededBy
				if e.SupersededBy != "" {
					require.Contains(t, e.Sentence, "It is worse now, "+e.SupersededBy+" fires: The slot ")
				}
			}
		}
	}
	stays := func(status string) {
		for range calmTicks {
			step(status)
		}
	}
	stays(WALExtended)
	require.Equal(t, "firing ", told["s slot_extended"])
	stays(WALUnreserved)
	require.Equal(t, "resolved slot_unreserved", told["s slot_extended"])
	stays(WALExtended)
	require.Equal(t, "resolved ", told["s slot_unreserved"], "milder is better")
	stays(WALUnreserved)
	stays(WALLost)
	require.Equal(t, map[string]string{
		"s slot_extended": "resolved slot_unreserved", "s slot_unreserved": "resolved slot_lost", "s slot_lost": "firing ",
		"s slot_time_to_full": "firing ", "well slot_time_to_full": "firing ",
	}, told)
}

func TestAlertsRepeat(t *testing.T) {
	a := newAlerts(time.Hour)
	found := []Finding{{Alert: "x", Slot: "s", Level: Warn}}
	require.Len(t, a.add(found, start), 1, "bad from the start")
	require.Empty(t, a.add(found, start.Add(time.Hour-1)))
	got := a.add(found, start.Add(time.Hour))
	require.Len(t, got, 1)
	require.True(t, got[0].Repeated)
	require.Empty(t, a.add(found, start.Add(time.Hour+1)))
	require.Empty(t, a.add(nil, start.Add(24*time.Hour)), "nobody looked, so nothing is known")
	require.Equal(t, Warn, a.level("x", "s"))
}

func TestAlertsEndWithTheirSlot(t *testing.T) {
	a := newAlerts(time.Hour)
	a.add([]Finding{{Alert: "x", Slot: "gone", Level: Warn}, {Alert: "y", Slot: "gone", Level: Critical}, {Alert: "x", Slot: "there", Level: Warn}, {Alert: "z", Level: Warn}}, start)
	alerts, level := a.of("gone")
	require.Equal(t, Critical, level)
	require.Equal(t, "y", alerts[0].Rule)
	got := a.gone(func(name string) bool { return name == "there" }, start)
	require.Len(t, got, 2)
	require.Equal(t, "x", got[0].Alert)
	require.Equal(t, Resolved, got[1].State)
	require.Contains(t, got[1].Sentence, "does not exist any more")
	require.Equal(t, []string{"x", "z"}, names(a.list()))
}

func TestFiringAlertsComeWorstFirst(t *testing.T) {
	a := newAlerts(time.Hour)
	a.add([]Finding{{Alert: "old", Slot: "s", Level: Warn, Sentence: "Old."}, {Alert: "fine", Slot: "s"}}, start)
	a.add([]Finding{{Alert: "new", Level: Critical, Sentence: "New."}, {Alert: "later", Slot: "r", Level: Warn}}, start.Add(time.Second))
	list := a.list()
	require.Equal(t, []FiringAlert{
		{Alert: Alert{"new", Critical, "New."}, Since: start.Add(time.Second).UTC()},
		{Alert: Alert{"old", Warn, "Old."}, Slot: "s", Since: start.UTC()},
		{Alert: Alert{Rule: "later", Level: Warn}, Slot: "r", Since: start.Add(time.Second).UTC()},
	}, list)
}
