package diagnose

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Bug (monitor): Of a connector that runs on another host `status` knew only the pid of its session. Cost: a search for
// what reads the slot.
func TestCause(t *testing.T) {
	since := now.Add(-time.Hour)
	streaming := relay.State{Name: relay.Streaming, Since: since}
	wait := func(kind, object string, ago time.Duration) fault.Wait {
		return fault.Wait{Kind: kind, Object: object, Reason: "because", Next: "do", Since: now.Add(-ago)}
	}
	held := &slotmonitor.Slot{
		Active: true, RetainedBytes: 1 << 30,
		Cause: alert.Cause{
			Code: slotmonitor.CauseOpenTransaction, Sentence: "Held back by pid 7.", Since: &since,
			Object: "pid 7",
		},
	}
	unread := &slotmonitor.Slot{Cause: alert.Cause{
		Code:     slotmonitor.CauseNoConsumer,
		Sentence: "No session has read the slot.",
	}}
	busy := relay.Window{Records: 5, MaxRecords: 100, Bytes: 500, MaxBytes: 1000}
	haltedRow := &relay.HaltedRow{
		EventID: "e-1", LSN: "0/AB", Message: "the topic is not one", Next: "dead-letter it",
		Since: since,
	}
	for name, c := range map[string]struct {
		st     relay.Account
		slot   *slotmonitor.Slot
		code   string
		words  string
		object string
		since  time.Time // zero: none
	}{
		"idle": {
			relay.Account{State: streaming},
			&slotmonitor.Slot{Active: true}, slotmonitor.CauseIdle,
			"nothing to send", "",
			time.Time{},
		},
		"idle, for rows are hidden": {
			relay.Account{
				State: streaming, Waits: []fault.Wait{wait(TableUnpublished, `publication "p"`, time.Minute)},
			},
			&slotmonitor.Slot{Active: true}, TableUnpublished, "because", `publication "p"`, now.Add(-time.Minute),
		},
		"idle, not looked": {
			relay.Account{State: streaming},
			nil, slotmonitor.CauseIdle, "nothing to send", "",
			time.Time{},
		},
		"streaming": {
			relay.Account{State: streaming, Window: busy, OldestUnconfirmedSeconds: 1.9},
			nil,
			Streaming, "5 in flight", "",
			time.Time{},
		},
		"no answer yet": {
			relay.Account{State: streaming, Window: busy, OldestUnconfirmedSeconds: 2},
			nil,
			Unacknowledged, "2 s ago", "kafka", now.Add(-2 * time.Second),
		},
		"broker": {
			relay.Account{
				State: streaming, Window: busy, WindowFull: true,
				Waits: []fault.Wait{wait("topic_missing", `topic "x"`, 1), wait("broker_unreachable", "broker b:1", 9)},
			},
			held, "broker_unreachable", "broker b:1: because.", "broker b:1", now.Add(-9),
		},
		"topic": {
			relay.Account{
				State: streaming,
				Waits: []fault.Wait{wait("topic_missing", `topic "x"`, 1)},
			},
			nil, "topic_missing", `topic "x"`, `topic "x"`,
			now.Add(-1),
		},
		"bad row": {
			relay.Account{
				State:  relay.State{Name: relay.Halted},
				Halted: []*relay.HaltedRow{haltedRow}, Waits: []fault.Wait{wait("topic_missing", `topic "x"`, 1)},
			},
			nil,
			BadRow, "event e-1, LSN 0/AB: the topic is not one.", "event e-1", since,
		},
		"full": {
			relay.Account{
				State: streaming, Window: busy, WindowFull: true,
				OldestUnconfirmedSeconds: 60,
			},
			held, BackPressure, "5 of 100 records, 500 B of 1,000 B", "window",
			now.Add(-time.Minute),
		},
		"large": {
			relay.Account{
				State: streaming, Window: busy, WindowFull: true,
				Open: &relay.OpenTx{CommitLSN: "0/FF", Rows: 12345}, OldestUnconfirmedSeconds: 60,
			},
			held, LargeTransaction,
			"12345 rows", "transaction at 0/FF", now.Add(-time.Minute),
		},
		"not that large": {relay.Account{
			State: streaming, Window: busy, WindowFull: true,
			Open: &relay.OpenTx{CommitLSN: "0/FF", Rows: 9999},
		}, nil, BackPressure, "", "window", time.Time{}},
		"held": {
			relay.Account{State: streaming, Window: busy, OldestUnconfirmedSeconds: 1},
			held,
			slotmonitor.CauseOpenTransaction, "pid 7", "pid 7", since,
		},
		"backlog": {
			relay.Account{State: streaming, Window: busy, OldestUnconfirmedSeconds: 1},
			&slotmonitor.Slot{Name: "s", Active: true, UnconfirmedBytes: 1 << 30, ConfirmedSince: &since}, CatchingUp,
			"1 GiB", `slot "s"`, since,
		},
		"not running": {
			relay.Account{State: relay.State{Name: relay.NotRunning}},
			unread,
			slotmonitor.CauseNoConsumer, "No session", "",
			time.Time{},
		},
		"another process": {
			relay.Account{Slot: "s", State: relay.State{
				Name:   relay.NotRunning,
				Reason: "nothing answers",
			}},
			&slotmonitor.Slot{Active: true, PID: 8}, OtherConsumer, "pid 8", `slot "s"`,
			time.Time{},
		},
		"a connector elsewhere": {
			relay.Account{Slot: "s", State: relay.State{
				Name: relay.NotRunning, Reason: "http.listen is off, so a running connector cannot be asked",
			}},
			&slotmonitor.Slot{
				Name: "s", Active: true, PID: 8,
				Reader: &slotmonitor.Reader{Application: "cdc-outbox/s", Client: "10.0.0.7"},
			}, OtherConsumer, `A connector runs elsewhere: it reads the slot from 10.0.0.7 (pid 8, application ` +
				`"cdc-outbox/s"). Here http.listen is off`, `slot "s"`,
			time.Time{},
		},
		"neither answers": {
			relay.Account{
				State: relay.State{Name: relay.NotRunning},
				Waits: []fault.Wait{wait(PostgresUnreachable, `slot "s"`, 1)},
			},
			nil, PostgresUnreachable, "because",
			`slot "s"`, now.Add(-1),
		},
		"server away": {
			relay.Account{Slot: "s", State: relay.State{
				Name:   relay.Reconnecting,
				Reason: "connection refused", Since: since,
			}, Waits: []fault.Wait{wait(PostgresUnreachable, `slot "s"`, 1)}},
			nil, PostgresUnreachable, "connection refused.", `slot "s"`, since,
		},
		"stream away": {relay.Account{Slot: "s", State: relay.State{
			Name: relay.Reconnecting, Reason: "no",
			Next: "grant", Since: since,
		}}, unread, NotStreaming, "no.", `slot "s"`, since},
		"opening": {
			relay.Account{Slot: "s", State: relay.State{Name: relay.Starting, Since: since}},
			unread,
			NotStreaming, "being opened", `slot "s"`, since,
		},
		"standby": {relay.Account{Slot: "s", State: relay.State{
			Name:   relay.WaitingForSlot,
			Reason: "held by backend 5", Since: since,
		}}, nil, Standby, "backend 5", `slot "s"`, since},
		"standby, looked": {
			relay.Account{Slot: "s", State: relay.State{
				Name:   relay.WaitingForSlot,
				Reason: "held by backend 5", Since: since,
			}},
			&slotmonitor.Slot{
				Active: true, PID: 6,
				Reader: &slotmonitor.Reader{Application: "cdc-outbox/s", Client: "10.0.0.1", Since: &since},
			}, Standby,
			`backend 6, application "cdc-outbox/s", from 10.0.0.1, since ` + since.Format(time.RFC3339) +
				". This instance waits", `slot "s"`, since,
		},
		"stopping": {
			relay.Account{Slot: "s", State: relay.State{Name: relay.Draining, Since: since}},
			nil,
			Stopping, "asked to stop", `slot "s"`, since,
		},
		"lost": {
			relay.Account{
				State:  relay.State{Name: relay.Reconnecting},
				Halted: []*relay.HaltedRow{haltedRow}, Waits: []fault.Wait{wait(slotmonitor.CauseLost, `slot "s"`, 1)},
			},
			nil, slotmonitor.CauseLost, "because", `slot "s"`, now.Add(-1),
		},
		"missing": {
			relay.Account{
				State: relay.State{Name: relay.NotRunning},
				Waits: []fault.Wait{wait(SlotMissing, `slot "s"`, 1)},
			},
			nil, SlotMissing, "because", `slot "s"`,
			now.Add(-1),
		},
		"monitor sees none": {
			relay.Account{
				State: streaming, Window: busy,
				Waits: []fault.Wait{wait(PostgresUnreachable, `slot "s"`, 1)},
			},
			nil, PostgresUnreachable, "because",
			`slot "s"`, now.Add(-1),
		},
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
	streaming := relay.State{Name: relay.Streaming, Since: now.Add(-time.Hour)}
	for name, c := range map[string]struct {
		st     relay.Account
		misfit error
		alert  string
		level  alert.Level
		words  string
	}{
		"well": {
			relay.Account{State: streaming, HeardSecondsAgo: ago(time.Second)},
			nil, "", alert.OK,
			"",
		},
		"old": {
			relay.Account{State: streaming, OldestUnconfirmedSeconds: 60},
			nil, EventsUnconfirmed,
			alert.Warn, "1 min ago",
		},
		"very old": {
			relay.Account{State: streaming, OldestUnconfirmedSeconds: 600},
			nil, EventsUnconfirmed,
			alert.Critical, "10 min ago",
		},
		"halted": {
			relay.Account{
				State:  relay.State{Name: relay.Halted},
				Halted: []*relay.HaltedRow{{EventID: "e", LSN: "0/1", Message: "bad"}},
			},
			nil, RowHalted, alert.Critical,
			"event e, LSN 0/1: bad.",
		},
		"dead-lettered": {
			relay.Account{State: streaming, Counts: relay.Counts{DeadLettered: 2, Skipped: 1}},
			nil,
			DeadLetters, alert.Warn, "2 dead letters and 1 skipped",
		},
		"silent": {
			relay.Account{State: streaming, HeardSecondsAgo: ago(time.Minute)},
			nil, StreamSilent,
			alert.Critical, "for 1 min.",
		},
		"silent, but full": {relay.Account{
			State: streaming, HeardSecondsAgo: ago(time.Minute),
			Window: relay.Window{Records: 1},
		}, nil, "", alert.OK, ""},
		"silent, but rows wait for a schema": {relay.Account{
			State: streaming, HeardSecondsAgo: ago(time.Minute), Waits: []fault.Wait{{Kind: RegistryRefuses}},
		}, nil, "", alert.OK, ""},
		"no stream": {relay.Account{State: relay.State{
			Name: relay.Reconnecting, Reason: "refused",
			Since: now.Add(-time.Minute),
		}}, nil, StreamSilent, alert.Critical, "for 1 min: refused."},
		"no stream yet": {relay.Account{State: relay.State{
			Name:  relay.Starting,
			Since: now.Add(-59 * time.Second),
		}}, nil, "", alert.OK, ""},
		"standby": {relay.Account{State: relay.State{
			Name:  relay.WaitingForSlot,
			Since: now.Add(-time.Hour),
		}}, nil, "", alert.OK, ""},
		"a lost slot": {
			relay.Account{State: streaming},
			&fault.Error{Object: `slot "s"`, Err: errors.New("gone")}, "", alert.OK, "",
		},
		"out of publications": {
			relay.Account{State: streaming},
			errors.New("table x is not in it"), TableUnpublished,
			alert.Critical, "table x is not in it.",
		},
		"a synchronous standby": {
			relay.Account{State: streaming, Waits: []fault.Wait{{Kind: "no_leader"}, {
				Kind: Synchronous, Object: "synchronous_standby_names", Reason: `It is "*", which takes in the stream`,
			}}},
			nil, SynchronousRelay, alert.Critical, `server wait for the relay. synchronous_standby_names: It is "*"`,
		},
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

// Nothing says when a group has passed the growth, so the alert ends when it is old.
func TestAddedPartitionsAreNewsForAWhile(t *testing.T) {
	grown := func(topic string, ago time.Duration) relay.Growth {
		return relay.Growth{
			Topic: topic, Before: 12, Now: 24, At: now.Add(-ago), Next: "Pause.", Commands: []string{topic},
		}
	}
	f := partitionsAdded(relay.Account{Grown: []relay.Growth{grown("a", time.Minute), grown("b", 2*time.Hour)}}, now)
	require.Equal(t, alert.Warn, f.Level)
	require.Contains(t, f.Sentence, `: topic "a" has 24 partitions and had 12.`)
	require.NotContains(t, f.Sentence, `"b"`)
	require.Equal(t, []string{"a"}, f.Cause.Commands)
	require.Equal(t, alert.OK, partitionsAdded(relay.Account{Grown: []relay.Growth{grown("b", time.Hour)}}, now).Level)
	require.Contains(t, PollingRules(), f.Alert)
}

func TestDeadLettersAreNewsForAWhile(t *testing.T) {
	var r Relay
	at := func(after time.Duration, letters uint64) alert.Level {
		return r.deadLetters(relay.Account{Counts: relay.Counts{DeadLettered: letters}}, now.Add(after)).Level
	}
	require.Equal(t, alert.OK, at(0, 0))
	require.Equal(t, alert.Warn, at(time.Second, 1))
	require.Equal(t, alert.Warn, at(9*time.Minute, 1))
	require.Equal(t, alert.OK, at(11*time.Minute, 1))
	require.Equal(t, alert.Warn, at(12*time.Minute, 2))
}
