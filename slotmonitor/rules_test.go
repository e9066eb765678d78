package slotmonitor

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	th := Thresholds{WarnRetained: 1 << 30, CriticalRetained: 10 << 30, WarnTimeToLimit: time.Hour, CriticalTimeToLimit: 10 * time.Minute}
	limit := ptr(int64(20 << 30))
	for name, c := range map[string]struct {
		slot  Slot
		level Level
		rule  string
		words string
	}{
		"healthy":               {Slot{WALStatus: WALReserved, RetainedBytes: 1<<30 - 1}, OK, "", ""},
		"warn":                  {Slot{WALStatus: WALReserved, RetainedBytes: 1 << 30}, Warn, "slot_retained_wal", "1GiB"},
		"critical":              {Slot{WALStatus: WALReserved, RetainedBytes: 11 << 30}, Critical, "slot_retained_wal", "11GiB"},
		"extended, no limit":    {Slot{WALStatus: WALExtended}, OK, "", ""},
		"extended":              {Slot{WALStatus: WALExtended, LimitBytes: limit}, Warn, "slot_extended", "max_slot_wal_keep_size (20GiB)"},
		"unreserved":            {Slot{WALStatus: WALUnreserved, LimitBytes: limit}, Critical, "slot_unreserved", "next checkpoint"},
		"lost":                  {Slot{WALStatus: WALLost, LimitBytes: limit, SecondsToLimit: ptr(0.0)}, Critical, "slot_lost", "max_slot_wal_keep_size"},
		"lost by idleness":      {Slot{WALStatus: WALLost, InvalidationReason: "idle_timeout"}, Critical, "slot_lost", "idle_replication_slot_timeout"},
		"an hour left":          {Slot{SecondsToLimit: ptr(3600.0)}, Warn, "slot_time_to_limit", "1h0m0s"},
		"more than an hour":     {Slot{SecondsToLimit: ptr(3601.0)}, OK, "", ""},
		"a thousand years left": {Slot{SecondsToLimit: ptr(1e300)}, OK, "", ""},
		"minutes left":          {Slot{SecondsToLimit: ptr(90.0)}, Critical, "slot_time_to_limit", "1m30s"},
		"the worst comes first": {Slot{WALStatus: WALExtended, LimitBytes: limit, SecondsToLimit: ptr(1.0), RetainedBytes: 2 << 30}, Critical, "slot_time_to_limit", "1s"},
	} {
		alerts, level := judge(c.slot, th)
		require.Equal(t, c.level, level, name)
		if c.level == OK {
			require.Empty(t, alerts, name)
			continue
		}
		require.Equal(t, c.rule, alerts[0].Rule, name)
		require.Equal(t, c.level, alerts[0].Level, name)
		require.Contains(t, alerts[0].Sentence, c.words, name)
	}
	_, level := judge(Slot{RetainedBytes: 1 << 60, SecondsToLimit: ptr(0.0)}, Thresholds{})
	require.Equal(t, OK, level, "a threshold of 0 is off")
}

func TestCause(t *testing.T) {
	held := &Transaction{PID: 9, Age: time.Hour}
	old := start.Add(-time.Hour)
	for want, s := range map[string]Slot{
		"Held back by the transaction of pid 9":     {Active: true, HeldBy: held, RetainedBytes: 100 << 20, UnconfirmedBytes: 10},
		"Its reader (pid 5) has 90MiB left":         {Active: true, PID: 5, HeldBy: held, RetainedBytes: 100 << 20, UnconfirmedBytes: 90 << 20},
		"Nobody has read the slot since":            {HeldBy: held, RetainedBytes: 100 << 20, UnconfirmedBytes: 90 << 20, InactiveSince: &old, SampledAt: start},
		"It is a standby's copy":                    {Synced: true, InactiveSince: &old},
		"Its reader (pid 6) has 1MiB left to confi": {Active: true, PID: 6, RetainedBytes: 1 << 20, UnconfirmedBytes: 1 << 20},
	} {
		require.Contains(t, cause(s), want)
	}
	require.Empty(t, cause(Slot{Active: true, HeldBy: held, RetainedBytes: 100}))
	require.Empty(t, cause(Slot{WALStatus: WALLost, InactiveSince: &old}))
}

func TestSlotAsJSON(t *testing.T) {
	s := Slot{Name: "s", Level: Critical, Alerts: []Alert{{Rule: "slot_lost", Level: Critical}}}
	b, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(b), `"level":"critical"`)
	require.Contains(t, string(b), `"seconds_to_limit":null`)
	var back Slot
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, s, back)
	require.Error(t, json.Unmarshal([]byte(`{"level":"dreadful"}`), &back))
}
