package diagnose

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestCause(t *testing.T) {
	since := now.Add(-time.Hour)
	streaming := connector.State{Name: connector.Streaming, Since: since}
	wait := func(kind, object string, ago time.Duration) fault.Wait {
		return fault.Wait{Kind: kind, Object: object, Reason: "because", Next: "do", Since: now.Add(-ago)}
	}
	held := &slotmonitor.Slot{Active: true, RetainedBytes: 1 << 30, Cause: alert.Cause{Code: slotmonitor.CauseOpenTransaction, Sentence: "Held back by pid 7.", Since: &since, Object: "pid 7"}}
	unread := &slotmonitor.Slot{Cause: alert.Cause{Code: slotmonitor.CauseNoConsumer, Sentence: "Nobody has read the slot."}}
	busy := connector.Window{Records: 5, MaxRecords: 100, Bytes: 500, MaxBytes: 1000}
	full := busy
	full.Full = true
	haltedRow := &connector.HaltedRow{EventID: "e-1", LSN: "0/AB", Message: "the topic is not one", Next: "put aside", Since: since}
	for name, c := range map[string]struct {
		st     connector.Status
		slot   *slotmonitor.Slot
		code   string
		words  string
		object string
		since  time.Time // zero: none
	}{
		"idle":              {connector.Status{State: streaming}, &slotmonitor.Slot{Active: true}, slotmonitor.CauseIdle, "nothing to send", "", time.Time{}},
		"idle, not looked":  {connector.Status{State: streaming}, nil, slotmonitor.CauseIdle, "nothing to send", "", time.Time{}},
		"streaming":         {connector.Status{State: streaming, Window: busy, OldestUnconfirmedSeconds: 1.9}, nil, Streaming, "5 in flight", "", time.Time{}},
		"no answer yet":     {connector.Status{State: streaming, Window: busy, OldestUnconfirmedSeconds: 2}, nil, Unacknowledged, "2 s ago", "kafka", now.Add(-2 * time.Second)},
		"broker":            {connector.Status{State: streaming, Window: full, Waits: []fault.Wait{wait("topic_missing", `topic "x"`, 1), wait("broker_unreachable", "broker b:1", 9)}}, held, "broker_unreachable", "broker b:1: because.", "broker b:1", now.Add(-9)},
		"topic":             {connector.Status{State: streaming, Waits: []fault.Wait{wait("topic_missing", `topic "x"`, 1)}}, nil, "topic_missing", `topic "x"`, `topic "x"`, now.Add(-1)},
		"bad row":           {connector.Status{State: connector.State{Name: connector.Halted}, Halted: haltedRow, Waits: []fault.Wait{wait("topic_missing", `topic "x"`, 1)}}, nil, BadRow, "event e-1, LSN 0/AB: the topic is not one.", "event e-1", since},
		"full":              {connector.Status{State: streaming, Window: full, OldestUnconfirmedSeconds: 60}, held, BackPressure, "5 of 100 records, 500B of 1000B", "window", now.Add(-time.Minute)},
		"large":             {connector.Status{State: streaming, Window: full, Open: &connector.OpenTx{CommitLSN: "0/FF", Rows: 12345}, OldestUnconfirmedSeconds: 60}, held, LargeTransaction, "12345 rows", "transaction at 0/FF", now.Add(-time.Minute)},
		"not that large":    {connector.Status{State: streaming, Window: full, Open: &connector.OpenTx{CommitLSN: "0/FF", Rows: 9999}}, nil, BackPressure, "", "window", time.Time{}},
		"held":              {connector.Status{State: streaming, Window: busy, OldestUnconfirmedSeconds: 1}, held, slotmonitor.CauseOpenTransaction, "pid 7", "pid 7", since},
		"backlog":           {connector.Status{State: streaming, Window: busy, OldestUnconfirmedSeconds: 1}, &slotmonitor.Slot{Name: "s", Active: true, UnconfirmedBytes: 1 << 30, ConfirmedSince: &since}, CatchingUp, "1GiB", `slot "s"`, since},
		"not running":       {connector.Status{State: connector.State{Name: NotRunning}}, unread, slotmonitor.CauseNoConsumer, "Nobody", "", time.Time{}},
		"somebody else":     {connector.Status{Slot: "s", State: connector.State{Name: NotRunning, Reason: "nothing answers"}}, &slotmonitor.Slot{Active: true, PID: 8}, OtherConsumer, "pid 8", `slot "s"`, time.Time{}},
		"neither answers":   {connector.Status{State: connector.State{Name: NotRunning}, Waits: []fault.Wait{wait(PostgresUnreachable, `slot "s"`, 1)}}, nil, PostgresUnreachable, "because", `slot "s"`, now.Add(-1)},
		"server away":       {connector.Status{Slot: "s", State: connector.State{Name: connector.Reconnecting, Reason: "connection refused", Since: since}, Waits: []fault.Wait{wait(PostgresUnreachable, `slot "s"`, 1)}}, nil, PostgresUnreachable, "connection refused.", `slot "s"`, since},
		"stream away":       {connector.Status{Slot: "s", State: connector.State{Name: connector.Reconnecting, Reason: "no", Next: "grant", Since: since}}, unread, NotStreaming, "no.", `slot "s"`, since},
		"opening":           {connector.Status{Slot: "s", State: connector.State{Name: connector.Starting, Since: since}}, unread, NotStreaming, "being opened", `slot "s"`, since},
		"standby":           {connector.Status{Slot: "s", State: connector.State{Name: connector.Standby, Reason: "held by backend 5", Since: since}}, nil, Standby, "backend 5", `slot "s"`, since},
		"standby, looked":   {connector.Status{Slot: "s", State: connector.State{Name: connector.Standby, Reason: "held by backend 5", Since: since}}, &slotmonitor.Slot{Active: true, PID: 6, Reader: &slotmonitor.Reader{Application: "cdc-outbox/s", Client: "10.0.0.1", Since: &since}}, Standby, `backend 6, application "cdc-outbox/s", from 10.0.0.1, since ` + since.Format(time.RFC3339) + ". This one stands by", `slot "s"`, since},
		"stopping":          {connector.Status{Slot: "s", State: connector.State{Name: connector.Draining, Since: since}}, nil, Stopping, "asked to stop", `slot "s"`, since},
		"lost":              {connector.Status{State: connector.State{Name: connector.Reconnecting}, Halted: haltedRow, Waits: []fault.Wait{wait(slotmonitor.CauseLost, `slot "s"`, 1)}}, nil, slotmonitor.CauseLost, "because", `slot "s"`, now.Add(-1)},
		"missing":           {connector.Status{State: connector.State{Name: NotRunning}, Waits: []fault.Wait{wait(SlotMissing, `slot "s"`, 1)}}, nil, SlotMissing, "because", `slot "s"`, now.Add(-1)},
		"monitor sees none": {connector.Status{State: streaming, Window: busy, Waits: []fault.Wait{wait(PostgresUnreachable, `slot "s"`, 1)}}, nil, PostgresUnreachable, "because", `slot "s"`, now.Add(-1)},
	} {
		t.Run(name, func(t *testing.T) {
			got := Cause(c.st, c.slot, now)
			require.Equal(t, c.code, got.Code)
			require.Contains(t, got.Sentence, c.words)
			require.Equal(t, c.object, got.Object)
			if c.since.IsZero() {
				require.Nil(t, got.Since)
			} else {
				require.Equal(t, c.since, *got.Since)
			}
		})
	}
}

func TestRelayRules(t *testing.T) {
	ago := func(d time.Duration) *float64 { s := d.Seconds(); return &s }
	streaming := connector.State{Name: connector.Streaming, Since: now.Add(-time.Hour)}
	for name, c := range map[string]struct {
		st     connector.Status
		misfit error
		alert  string
		level  alert.Level
		words  string
	}{
		"well":                {connector.Status{State: streaming, HeardSecondsAgo: ago(time.Second)}, nil, "", alert.OK, ""},
		"old":                 {connector.Status{State: streaming, OldestUnconfirmedSeconds: 60}, nil, EventsUnconfirmed, alert.Warn, "1 min ago"},
		"very old":            {connector.Status{State: streaming, OldestUnconfirmedSeconds: 600}, nil, EventsUnconfirmed, alert.Critical, "10 min ago"},
		"halted":              {connector.Status{State: connector.State{Name: connector.Halted}, Halted: &connector.HaltedRow{EventID: "e", LSN: "0/1", Message: "bad"}}, nil, RowHalted, alert.Critical, "event e, LSN 0/1: bad."},
		"put aside":           {connector.Status{State: streaming, Counts: connector.Counts{DeadLettered: 2, Skipped: 1}}, nil, DeadLetters, alert.Warn, "2 dead letters and 1 skipped"},
		"silent":              {connector.Status{State: streaming, HeardSecondsAgo: ago(time.Minute)}, nil, StreamSilent, alert.Critical, "for 1 min."},
		"silent, but full":    {connector.Status{State: streaming, HeardSecondsAgo: ago(time.Minute), Window: connector.Window{Records: 1}}, nil, "", alert.OK, ""},
		"no stream":           {connector.Status{State: connector.State{Name: connector.Reconnecting, Reason: "refused", Since: now.Add(-time.Minute)}}, nil, StreamSilent, alert.Critical, "for 1 min: refused."},
		"no stream yet":       {connector.Status{State: connector.State{Name: connector.Starting, Since: now.Add(-59 * time.Second)}}, nil, "", alert.OK, ""},
		"standby":             {connector.Status{State: connector.State{Name: connector.Standby, Since: now.Add(-time.Hour)}}, nil, "", alert.OK, ""},
		"a lost slot":         {connector.Status{State: streaming}, &fault.Error{Object: `slot "s"`, Err: errors.New("gone")}, "", alert.OK, ""},
		"out of publications": {connector.Status{State: streaming}, errors.New("table x is not in it"), TableUnpublished, alert.Critical, "table x is not in it."},
	} {
		t.Run(name, func(t *testing.T) {
			var fires []alert.Finding
			for _, f := range new(Relay).Judge(c.st, c.misfit, now) {
				require.Contains(t, Rules(), f.Alert)
				if f.Level != alert.OK {
					fires = append(fires, f)
				}
			}
			if c.alert == "" {
				require.Empty(t, fires)
				return
			}
			require.Len(t, fires, 1)
			require.Equal(t, c.alert, fires[0].Alert)
			require.Equal(t, c.level, fires[0].Level)
			require.Contains(t, fires[0].Sentence, c.words)
		})
	}
}

func TestDeadLettersAreNewsForAWhile(t *testing.T) {
	var r Relay
	at := func(after time.Duration, letters uint64) alert.Level {
		return r.deadLetters(connector.Status{Counts: connector.Counts{DeadLettered: letters}}, now.Add(after)).Level
	}
	require.Equal(t, alert.OK, at(0, 0))
	require.Equal(t, alert.Warn, at(time.Second, 1))
	require.Equal(t, alert.Warn, at(9*time.Minute, 1))
	require.Equal(t, alert.OK, at(11*time.Minute, 1))
	require.Equal(t, alert.Warn, at(12*time.Minute, 2))
}
