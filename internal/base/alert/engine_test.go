package alert

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestAlertsTellEachChangeOnce(t *testing.T) {
	a := NewEngine(time.Hour, nil)
	now := start
	step := func(after time.Duration, level Level) []Event {
		now = now.Add(after)
		return a.Add([]Finding{{Alert: "x", Subject: "s", Level: level, Sentence: level.String() + "!"}}, now)
	}
	require.Empty(t, step(0, OK), "a healthy slot is nothing to tell")
	got := step(time.Second, Warn)
	require.Equal(t, []Event{{
		Alert: "x", Subject: "s", State: Firing, Level: Warn, Sentence: "warn!", Since: now,
		At: now,
	}}, got, "worse is reported at once")
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
	require.Equal(t, []string{"x"}, Names(a.List()))
	got = step(time.Second, OK)
	require.Equal(t, []Event{{
		Alert: "x", Subject: "s", State: Resolved, Level: Critical, Before: Critical,
		Sentence: "critical!", Since: began, At: now,
	}}, got)
	require.Empty(t, step(time.Second, OK))
	require.Empty(t, Names(a.List()))
}

// Bug (monitor): A superseded alert ended after six quiet samples. Cost: a slot that was lost for half a minute still
// "reaches max_slot_wal_keep_size in 0 ms".
func TestASupersededAlertEndsAtOnce(t *testing.T) {
	a := NewEngine(time.Hour, func(alert string) []string {
		if alert == "mild" {
			return []string{"bad"}
		}
		return nil
	})
	a.Add([]Finding{{Alert: "bad", Subject: "s"}, {Alert: "mild", Subject: "s", Level: Critical}}, start)
	got := a.Add([]Finding{
		{Alert: "bad", Subject: "s", Level: Critical, Sentence: "Lost."}, {Alert: "mild", Subject: "s"},
	}, start)
	require.Len(t, got, 2)
	require.Equal(t, Resolved, got[1].State)
	require.Equal(t, "bad", got[1].SupersededBy)
	require.Contains(t, got[1].Sentence, "Lost.")
	require.Equal(t, []string{"bad"}, Names(a.List()))
}

func TestAlertsGetMilderAfterACalm(t *testing.T) {
	a := NewEngine(time.Hour, nil)
	var told []Level
	for _, level := range []Level{Critical, Warn, Warn, Warn, Warn, Warn, Warn, Warn, OK} {
		for _, e := range a.Add([]Finding{{Alert: "x", Level: level}}, start) {
			told = append(told, e.Level)
		}
	}
	require.Equal(t, []Level{Critical, Warn}, told)
}

func TestAlertsRepeat(t *testing.T) {
	a := NewEngine(time.Hour, nil)
	found := []Finding{{Alert: "x", Subject: "s", Level: Warn}}
	require.Len(t, a.Add(found, start), 1, "bad from the start")
	require.Empty(t, a.Add(found, start.Add(time.Hour-1)))
	got := a.Add(found, start.Add(time.Hour))
	require.Len(t, got, 1)
	require.True(t, got[0].Repeated)
	require.Empty(t, a.Add(found, start.Add(time.Hour+1)))
	require.Empty(t, a.Add(nil, start.Add(24*time.Hour)), "no check was made, so nothing is known")
	require.Equal(t, Warn, a.Level("x", "s"))
}

func TestAlertsEndWithTheirSlot(t *testing.T) {
	a := NewEngine(time.Hour, nil)
	a.Add([]Finding{
		{Alert: "x", Subject: "gone", Level: Warn},
		{Alert: "y", Subject: "gone", Level: Critical},
		{Alert: "x", Subject: "there", Level: Warn},
		{Alert: "z", Level: Warn},
	}, start)
	alerts, level := a.About("gone")
	require.Equal(t, Critical, level)
	require.Equal(t, "y", alerts[0].Rule)
	there := func(name string) bool { return name == "there" }
	got := a.End(there, nil, func(string) string { return "gone" }, start)
	require.Len(t, got, 2)
	require.Equal(t, "x", got[0].Alert)
	require.Equal(t, Resolved, got[1].State)
	require.Equal(t, "gone", got[1].Sentence)
	require.Equal(t, []string{"x", "z"}, Names(a.List()))
}

// TestAnAlertThatIsJudgedOutlivesItsSlot: that the slot is missing is what it is about.
//
// Bug (monitor): while a slot was missing, connector_stopped was resolved and fired again at each check. Cost: two
// messages to the webhook each monitor.interval, and an alert that was never older than that.
func TestAnAlertThatIsJudgedOutlivesItsSlot(t *testing.T) {
	a := NewEngine(time.Hour, nil)
	found := []Finding{{Alert: "x", Subject: "gone", Level: Critical}}
	a.Add(append(found, Finding{Alert: "y", Subject: "gone", Level: Warn}), start)
	got := a.End(func(string) bool { return false }, found, func(string) string { return "gone" }, start)
	require.Len(t, got, 1)
	require.Equal(t, "y", got[0].Alert)
	require.Equal(t, []string{"x"}, Names(a.List()))
}

func TestFiringAlertsComeWorstFirst(t *testing.T) {
	a := NewEngine(time.Hour, nil)
	a.Add([]Finding{{Alert: "old", Subject: "s", Level: Warn, Sentence: "Old."}, {Alert: "fine", Subject: "s"}}, start)
	a.Add([]Finding{{Alert: "new", Level: Critical, Sentence: "New."}, {Alert: "later", Subject: "r", Level: Warn}},
		start.Add(time.Second))
	list := a.List()
	require.Equal(t, []FiringAlert{
		{Alert: Alert{"new", Critical, "New."}, Since: start.Add(time.Second).UTC()},
		{Alert: Alert{"old", Warn, "Old."}, Subject: "s", Since: start.UTC()},
		{Alert: Alert{Rule: "later", Level: Warn}, Subject: "r", Since: start.Add(time.Second).UTC()},
	}, list)
}

// An alert belongs to the cause for which it fires: while it calms down, the subject may wait for something else.
//
// Bug (monitor): An alert was reported and shown under whatever the slot waited for at that moment. Cost: an alert of a
// broker that was back, resolved "because" of an open transaction that was still open.
func TestAnAlertHasTheCauseOfItsFact(t *testing.T) {
	a := NewEngine(time.Hour, nil)
	now, present := start, Cause{Code: "broker_unreachable"}
	step := func(found ...Finding) []Event {
		now = now.Add(time.Second)
		Attribute(found, func(string) Cause { return present })
		return a.Add(found, now)
	}
	unconfirmed := Finding{Alert: "events_unconfirmed", Level: Warn}
	letters := Finding{Alert: "dead_letters", Level: Warn, Cause: Cause{Code: "dead_letters"}}
	causes := func() map[string]string {
		of := map[string]string{}
		for _, f := range a.List() {
			of[f.Rule] = f.Cause.Code
		}
		return of
	}
	got := step(unconfirmed, letters)
	require.Equal(t, "broker_unreachable", got[0].Cause.Code)
	require.Equal(t, "dead_letters", got[1].Cause.Code, "not what the slot waits for")

	present.Code = "topic_missing"
	require.Empty(t, step(unconfirmed, letters))
	require.Equal(t, map[string]string{"events_unconfirmed": "topic_missing", "dead_letters": "dead_letters"}, causes())

	present.Code = "open_transaction"
	for range calmTicks - 1 {
		require.Empty(t, step(Finding{Alert: "events_unconfirmed"}, letters))
		require.Equal(t, "topic_missing", causes()["events_unconfirmed"], "it does not fire for what came after it")
	}
	got = step(Finding{Alert: "events_unconfirmed"}, letters)
	require.Len(t, got, 1)
	require.Equal(t, Resolved, got[0].State)
	require.Equal(t, "topic_missing", got[0].Cause.Code, "what is over is not the transaction that is open now")
}
