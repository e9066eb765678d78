package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/app/statusview"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// A remedy looks the same wherever it is shown: the sentence, then each command on lines of its own.
func TestRemedyText(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	next, commands := "Create it.", []string{"CREATE TABLE t (\n  id int\n);", "cdc-outbox check"}
	const under6, under5 = "    next: Create it.\n" +
		"          CREATE TABLE t (\n" +
		"            id int\n" +
		"          );\n" +
		"          cdc-outbox check\n", "    fix: Create it.\n" +
		"         CREATE TABLE t (\n" +
		"           id int\n" +
		"         );\n" +
		"         cdc-outbox check\n"
	waits := []fault.Wait{{Kind: "k", Object: "o", Reason: "r", Next: next, Commands: commands, Since: since}}
	halted := &relay.HaltedRow{EventID: "e", Next: next, Commands: commands, Since: since}
	state := relay.State{Name: relay.Reconnecting, Next: next, Commands: commands, Since: since}
	cause := alert.Cause{Code: "c", Sentence: "S.", Next: next, Commands: commands}
	show := func(b *strings.Builder, st service.Status) error {
		return statusview.Write(b, st, "here", console.Style{})
	}
	for name, c := range map[string]struct {
		write func(*strings.Builder) error
		want  string
		times int
	}{
		"check": {func(b *strings.Builder) error {
			return console.Findings(b, []preflight.Finding{{Level: preflight.Fail, Remedy: next, Commands: commands}},
				console.Style{}, false)
		}, under5, 1},
		"status": {func(b *strings.Builder) error {
			return show(b, service.Status{Status: connector.Status{State: state, Waits: waits}})
		}, under6, 2},
		"status, halted": {func(b *strings.Builder) error {
			return show(b, service.Status{Status: connector.Status{State: state, Halted: halted}})
		}, under6, 1},
		"status --why": {func(b *strings.Builder) error {
			return statusview.WriteCause(b, cause, console.Style{})
		}, under6, 1},
		"status, polling": {func(b *strings.Builder) error {
			st := polling.Status{State: state, Waits: waits, Backlog: &relay.Backlog{}}
			return statusview.WritePolling(b, st, "here", nil, console.Style{})
		}, under6, 2},
		"status, polling, halted": {func(b *strings.Builder) error {
			st := polling.Status{State: state, Halted: []*relay.HaltedRow{halted}, Backlog: &relay.Backlog{}}
			return statusview.WritePolling(b, st, "here", nil, console.Style{})
		}, under6, 1},
		"status, open transaction": {func(b *strings.Builder) error {
			open := []slotmonitor.Transaction{{PID: 1, Next: next, Commands: []string{"SELECT 1;"}}}
			return show(b, service.Status{ReplicationSlot: &slotmonitor.Slot{Open: open}})
		}, "Create it.\n                    SELECT 1;\n", 1},
		"monitor": {func(b *strings.Builder) error {
			slot := slotmonitor.Slot{Name: "s", Cause: cause, Alerts: []alert.Alert{{Rule: "x", Level: alert.Warn}}}
			return statusview.WriteSlots(b, service.Slots{Slots: []slotmonitor.Slot{slot}}, console.Style{})
		}, "  next: Create it.\n        CREATE TABLE t (\n          id int\n        );\n        cdc-outbox check\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			require.NoError(t, c.write(&b))
			require.Equal(t, c.times, strings.Count(b.String(), c.want), b.String())
		})
	}
}

func TestPrintCommentOfARemedy(t *testing.T) {
	var b strings.Builder
	a := &app{stdout: &b}
	require.NoError(t, a.printComment(&fault.Error{
		Object: "slot", Next: "Free one.", Commands: []string{"SELECT 1;\nSELECT 2;"},
	}))
	require.Equal(t, "-- This would fail: slot\n-- Free one.\n-- SELECT 1;\n-- SELECT 2;\n\n", b.String())
}
