package slotmonitor

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
)

func TestRules(t *testing.T) {
	th := DefaultThresholds
	limit := ptr(int64(20 << 30))
	ago := func(d time.Duration) *time.Time { return ptr(start.Add(-d)) }
	for name, c := range map[string]struct {
		slot  Slot
		level alert.Level
		rule  string
		words string
	}{
		"healthy": {Slot{WALStatus: WALReserved, RetainedBytes: 1<<30 - 1}, alert.OK, "", ""},
		"warn": {
			Slot{WALStatus: WALReserved, RetainedBytes: 1 << 30},
			alert.Warn, "slot_retained_wal",
			"1 GiB",
		},
		"critical": {
			Slot{WALStatus: WALReserved, RetainedBytes: 11 << 30},
			alert.Critical,
			"slot_retained_wal", "11 GiB",
		},
		"extended, no limit": {Slot{WALStatus: WALExtended}, alert.OK, "", ""},
		"extended": {
			Slot{WALStatus: WALExtended, LimitBytes: limit},
			alert.Warn, "slot_extended",
			"max_slot_wal_keep_size (20 GiB)",
		},
		"unreserved": {
			Slot{WALStatus: WALUnreserved, LimitBytes: limit},
			alert.Critical, "slot_unreserved",
			"next checkpoint",
		},
		"lost": {
			Slot{WALStatus: WALLost, LimitBytes: limit, SecondsToLimit: ptr(0.0)},
			alert.Critical,
			"slot_lost", "max_slot_wal_keep_size",
		},
		"lost by idleness": {
			Slot{WALStatus: WALLost, InvalidationReason: "idle_timeout"},
			alert.Critical,
			"slot_lost", "idle_replication_slot_timeout",
		},
		"a lost copy": {
			Slot{WALStatus: WALLost, Synced: true, InvalidationReason: "rows_removed"},
			alert.Critical,
			"slot_lost", "A promotion now",
		},
		"an hour left":          {Slot{SecondsToLimit: ptr(3600.0)}, alert.Warn, "slot_time_to_limit", "in 1 h;"},
		"more than an hour":     {Slot{SecondsToLimit: ptr(3601.0)}, alert.OK, "", ""},
		"a thousand years left": {Slot{SecondsToLimit: ptr(1e300)}, alert.OK, "", ""},
		"minutes left": {
			Slot{SecondsToLimit: ptr(90.0)},
			alert.Critical, "slot_time_to_limit",
			"in 1 min 30 s;",
		},
		"the disk": {
			Slot{SecondsToFull: ptr(90.0)},
			alert.Critical, "slot_time_to_full",
			"in 1 min 30 s,",
		},
		"the worst comes first": {Slot{
			WALStatus: WALExtended, LimitBytes: limit, SecondsToLimit: ptr(1.0),
			RetainedBytes: 2 << 30,
		}, alert.Critical, "slot_time_to_limit", "in 1 s;"},
		"unread": {
			Slot{kept: true, InactiveSince: ago(time.Minute)},
			alert.Warn, "slot_inactive",
			"for 1 min;",
		},
		"unread for a moment":   {Slot{kept: true, InactiveSince: ago(59 * time.Second)}, alert.OK, "", ""},
		"unread, keeps nothing": {Slot{InactiveSince: ago(time.Hour)}, alert.OK, "", ""},
		"a standby's copy":      {Slot{kept: true, Synced: true, InactiveSince: ago(time.Hour)}, alert.OK, "", ""},
		"still": {
			Slot{Active: true, ConfirmedSince: ago(time.Minute), UnconfirmedBytes: 16 << 20},
			alert.Warn, "slot_not_advancing", "16 MiB",
		},
		"still, little waits": {
			Slot{Active: true, ConfirmedSince: ago(time.Hour), UnconfirmedBytes: 16<<20 - 1},
			alert.OK, "", "",
		},
		"still for a moment": {
			Slot{Active: true, ConfirmedSince: ago(time.Second), UnconfirmedBytes: 1 << 40},
			alert.OK, "", "",
		},
	} {
		c.slot.SampledAt = start
		alerts, level := alert.Fires(judge(c.slot, th, nil))
		require.Equal(t, c.level, level, name)
		if c.level == alert.OK {
			require.Empty(t, alerts, name)
			continue
		}
		require.Equal(t, c.rule, alerts[0].Rule, name)
		require.Equal(t, c.level, alerts[0].Level, name)
		require.Contains(t, alerts[0].Sentence, c.words, name)
	}
	_, level := alert.Fires(judge(Slot{
		RetainedBytes: 1 << 60, SecondsToLimit: ptr(0.0), Active: true,
		ConfirmedSince: ago(time.Hour), UnconfirmedBytes: 1 << 60,
	}, Thresholds{}, nil))
	require.Equal(t, alert.OK, level, "a threshold of 0 is off")
}

// TestRulesAreSlowToLetGo: a value that moves to and fro around a threshold does not switch the alert on and off.
func TestRulesAreSlowToLetGo(t *testing.T) {
	at := func(s Slot, rule string, now alert.Level) alert.Level {
		for _, f := range judge(s, DefaultThresholds, func(string, string) alert.Level { return now }) {
			if f.Alert == rule {
				return f.Level
			}
		}
		return alert.OK
	}
	require.Equal(t, alert.OK, at(Slot{RetainedBytes: 900 << 20}, "slot_retained_wal", alert.OK))
	require.Equal(t, alert.Warn, at(Slot{RetainedBytes: 900 << 20}, "slot_retained_wal", alert.Warn))
	require.Equal(t, alert.OK, at(Slot{RetainedBytes: 800 << 20}, "slot_retained_wal", alert.Warn))
	require.Equal(t, alert.Critical, at(Slot{RetainedBytes: 9 << 30}, "slot_retained_wal", alert.Critical))
	require.Equal(t, alert.Warn, at(Slot{RetainedBytes: 9 << 30}, "slot_retained_wal", alert.Warn))
	require.Equal(t, alert.OK, at(Slot{SecondsToLimit: ptr(4000.0)}, "slot_time_to_limit", alert.OK))
	require.Equal(t, alert.Warn, at(Slot{SecondsToLimit: ptr(4000.0)}, "slot_time_to_limit", alert.Warn))
	require.Equal(t, alert.OK, at(Slot{SecondsToLimit: ptr(4501.0)}, "slot_time_to_limit", alert.Warn))
}

// Bug (monitor): The remedy for a standby's lost copy was to drop the slot. Cost: pasted on the primary, lost events.
func TestCause(t *testing.T) {
	held := &Transaction{PID: 9, Age: time.Hour, QueryStart: &start}
	old, older := start.Add(-time.Hour), start.Add(-6*time.Hour)
	for _, c := range []struct {
		code, words, next string
		slot              Slot
	}{
		{
			CauseOpenTransaction, "Held back by the transaction of pid 9", "pg_catalog.pg_terminate_backend(9)",
			Slot{Active: true, HeldBy: held, RetainedBytes: 100 << 20, UnconfirmedBytes: 10},
		},
		{
			CauseOpenTransaction, "last statement began at 2026-01-02T03:04:05Z", "",
			Slot{Active: true, HeldBy: held, RetainedBytes: 100 << 20, UnconfirmedBytes: 10},
		},
		{
			CauseOpenTransaction, `prepared transaction "it's"`, "ROLLBACK PREPARED 'it''s'",
			Slot{Active: true, HeldBy: &Transaction{GID: "it's"}, RetainedBytes: 100 << 20},
		},
		{
			CauseReader, "Its reader (pid 5) has 90 MiB left", "",
			Slot{Active: true, PID: 5, HeldBy: held, RetainedBytes: 100 << 20, UnconfirmedBytes: 90 << 20},
		},
		{
			CauseReader, `(pid 5, application "debezium")`, "",
			Slot{
				Active: true, PID: 5, Reader: &Reader{Application: "debezium"}, RetainedBytes: 100 << 20,
				UnconfirmedBytes: 90 << 20,
			},
		},
		{
			CauseNoConsumer, "No session has read the slot since", "Start its reader.",
			Slot{
				HeldBy: held, RetainedBytes: 100 << 20, UnconfirmedBytes: 90 << 20, InactiveSince: &old,
				SampledAt: start,
			},
		},
		{
			CauseNoConsumer, "No session has read the slot since", "pg_catalog.pg_drop_replication_slot('s')",
			Slot{
				HeldBy: held, RetainedBytes: 100 << 20, UnconfirmedBytes: 90 << 20, InactiveSince: &older,
				SampledAt: start,
			},
		},
		{
			CauseNoConsumer, "since when is not known", "pg_catalog.pg_drop_replication_slot('s')",
			Slot{InactiveSince: &older, InactiveAtLeast: true, SampledAt: start},
		},
		{CauseStandbyCopy, "It is a standby's copy", "", Slot{Synced: true, InactiveSince: &old}},
		{
			CauseLost, "a standby's copy", "copies it again",
			Slot{Synced: true, WALStatus: WALLost, InactiveSince: &old},
		},
		{CauseLost, "never be read again", "", Slot{WALStatus: WALLost, InactiveSince: &old}},
		{CauseIdle, "Nothing waits", "", Slot{Active: true, HeldBy: held, RetainedBytes: 100}},
	} {
		c.slot.Name = "s"
		got := cause(c.slot)
		require.Equal(t, c.code, got.Code)
		require.Contains(t, got.Sentence, c.words)
		require.Contains(t, got.Remedy().String(), c.next)
		if c.code == CauseNoConsumer && c.slot.InactiveSince == &old {
			require.Empty(t, got.Commands, "too soon")
		}
	}
}

func TestSlotAsJSON(t *testing.T) {
	s := Slot{Name: "s", Level: alert.Critical, Alerts: []alert.Alert{{Rule: "slot_lost", Level: alert.Critical}}}
	b, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(b), `"level":"critical"`)
	require.Contains(t, string(b), `"seconds_to_limit":null`)
	var back Slot
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, s, back)
	require.Error(t, json.Unmarshal([]byte(`{"level":"dreadful"}`), &back))
}

// What ends because it has got worse must not read as if all were well.
func TestAlertsAreSupersededByWorseOnes(t *testing.T) {
	a := alert.NewEngine(time.Hour, supersedes)
	told := map[string]string{}
	step := func(status string) {
		for _, slot := range []string{"s", "well"} {
			s := Slot{Name: slot, WALStatus: WALReserved, LimitBytes: ptr(int64(1 << 30)), SecondsToFull: ptr(60.0)}
			if slot == "s" {
				s.WALStatus = status
			}
			for _, e := range a.Add(judge(s, DefaultThresholds, a.Level), start) {
				told[e.Subject+" "+e.Alert] = string(e.State) + " " + e.SupersededBy
				if e.SupersededBy != "" {
					require.Contains(t, e.Sentence, "It is worse now, "+e.SupersededBy+" fires: The slot ")
				}
			}
		}
	}
	stays := func(status string) {
		for range 6 {
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
		"s slot_extended": "resolved slot_unreserved", "s slot_unreserved": "resolved slot_lost",
		"s slot_lost":         "firing ",
		"s slot_time_to_full": "firing ", "well slot_time_to_full": "firing ",
	}, told)
}
