package statusview

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

func TestSlotsAsATable(t *testing.T) {
	growth, left, since := -2048.0, 90.0, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var b strings.Builder
	require.NoError(t, WriteSlots(&b, service.Slots{Error: "away", Slots: []slotmonitor.Slot{
		{
			Name: "a", Database: "shop", Plugin: "pgoutput", Active: true, PID: 7,
			Reader: &slotmonitor.Reader{Application: "dbz\x1b"}, WALStatus: "reserved", RetainedBytes: 1 << 30,
			GrowthPerSecond: &growth,
		},
		{
			Name: "b", Database: "shop", Plugin: "pgoutput", InactiveSince: &since, SampledAt: since.Add(time.Hour),
			WALStatus: "extended", SecondsToLimit: &left, Level: alert.Critical,
			Alerts: []alert.Alert{{Rule: "slot_time_to_limit", Level: alert.Critical, Sentence: "Soon."}},
			Cause:  alert.Cause{Sentence: "No reader.", Next: "Start it."},
		},
	}}, console.Style{}))
	require.Regexp(t, `a +shop +pgoutput +dbz\S* \(pid 7\) +reserved +1 GiB +0 B +-2 KiB/s +- +ok`, b.String())
	require.Regexp(t, `b +shop +pgoutput +nobody for 1 h +extended +0 B +0 B +- +1 min 30 s +critical`,
		b.String())
	require.Equal(t, "nobody", readerOf(slotmonitor.Slot{InactiveSince: &since, SampledAt: since}),
		"first seen now: for how long is not known")
	require.Contains(t, b.String(), "\nb\n  critical slot_time_to_limit: Soon.\n  why: No reader.\n  next: Start it.\n")
	require.Contains(t, b.String(), "does not answer, so this is old: away")
	require.NotContains(t, b.String(), "\x1b")
}

func wide() service.Slots {
	growth, left := 34e6, 4000.0
	return service.Slots{Slots: []slotmonitor.Slot{
		{
			Name: "inventory_connector_slot_of_the_warehouse", Database: "warehouse", Plugin: "pgoutput", Active: true,
			PID: 1234567, Reader: &slotmonitor.Reader{Application: "Debezium Streaming"}, WALStatus: "extended",
			RetainedBytes: 12 << 30, UnconfirmedBytes: 11 << 30, GrowthPerSecond: &growth, SecondsToLimit: &left,
			Level: alert.Warn,
			Alerts: []alert.Alert{{
				Rule: "slot_retained_wal", Level: alert.Warn, Sentence: strings.Repeat("It retains much. ", 12),
			}},
			Cause: alert.Cause{
				Sentence: strings.Repeat("The reader is slow. ", 8), Next: strings.Repeat("Look at the reader. ", 8),
				Commands: []string{"a command " + strings.Repeat("that stays whole ", 10)},
			},
		},
		{Name: "b", Database: "shop", WALStatus: "lost", Level: alert.Critical},
	}}
}

func TestSlotsFitTheTerminal(t *testing.T) {
	for _, width := range []int{60, 80, 100, 132, 200} {
		var b strings.Builder
		require.NoError(t, WriteSlots(&b, wide(), console.Style{Width: width}))
		for line := range strings.Lines(b.String()) {
			if !strings.Contains(line, "a command") {
				require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), width, line)
			}
		}
		for _, stays := range []string{"SLOT", "READER", "RETAINED", "TIME LEFT", "ALERT", "12 GiB"} {
			require.Contains(t, b.String(), stays, width)
		}
		require.Equal(t, width == 200, strings.Contains(b.String(), "PLUGIN"), width)
	}
	var whole strings.Builder
	require.NoError(t, WriteSlots(&whole, wide(), console.Style{}))
	require.Contains(t, whole.String(), "UNCONFIRMED", "lines stay whole where there is no terminal")
	require.NotContains(t, whole.String(), "…")
}

func TestLevelsOfSlotsHaveColours(t *testing.T) {
	var b strings.Builder
	require.NoError(t, WriteSlots(&b, wide(), console.Style{Colour: true, Width: 80}))
	require.Contains(t, b.String(), "\x1b[31mcritical\x1b[0m\n")
	require.Contains(t, b.String(), "\x1b[33mwarn\x1b[0m\n")
	require.Contains(t, b.String(), "  \x1b[33mwarn\x1b[0m slot_retained_wal: It retains")
}
