package statusview

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// WriteSlots prints a table, and below it the alerts of each slot, and their cause.
func WriteSlots(w io.Writer, s service.Slots, style console.Style) error {
	var b strings.Builder
	writeTable(&b, s.Slots, style)
	if len(s.Slots) == 0 && s.Error == "" {
		b.WriteString("there is no logical slot\n")
	}
	for _, slot := range s.Slots {
		alerts := slices.DeleteFunc(slices.Clone(slot.Alerts), func(a alert.Alert) bool {
			return a.Rule == diagnose.EventsMayBeMissing // see writeSlotGaps
		})
		if len(alerts) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", slot.Name)
		for _, a := range alerts {
			label := "  " + a.Level.String() + " "
			style.Line(&b, "  "+painted(style, a.Level)+" ", len(label),
				fault.Printable(fmt.Sprintf("%s: %s", a.Rule, a.Sentence)))
		}
		style.Line(&b, "  why: ", len("  why: "), fault.Printable(slot.Cause.Sentence))
		writeRemedy(&b, slot.Cause.Remedy(), style)
	}
	for _, slot := range s.Slots {
		if w := s.LastWords[slot.Name]; w != nil {
			fmt.Fprintf(&b, "\n%s\n", slot.Name)
			style.Line(&b, "  ", 2, fault.Printable(w.Explain()))
			style.Remedy(&b, "next: ", w.Remedy())
		}
	}
	writeSlotGaps(&b, s, style)
	if s.Error != "" {
		style.Line(&b, "\n", 0, "the server does not answer, so this is old: "+fault.Printable(s.Error))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeSlotGaps prints which events may be missing, by slot, and how to find out.
func writeSlotGaps(b *strings.Builder, s service.Slots, style console.Style) {
	for _, slot := range slices.Sorted(maps.Keys(s.Gaps)) {
		open := s.Gaps[slot]
		fmt.Fprintf(b, "\n%s\n", fault.Printable(slot))
		style.Line(b, "  ", 2, fault.Printable(gap.Summary(open)))
		writeRemedy(b, gap.Remedy(open), style)
	}
	if s.GapsUnknown != "" {
		style.Line(b, "\n", 0, "Gaps in the streams are not known: "+fault.Printable(s.GapsUnknown))
	}
}

// writeRemedy leaves commands whole: they are there to be pasted.
func writeRemedy(b *strings.Builder, r fault.Remedy, style console.Style) {
	label := "  next: "
	for i, line := range r.Lines() {
		if i == 0 && r.Next != "" {
			style.Line(b, label, len(label), fault.Printable(line))
		} else {
			b.WriteString(label + fault.Printable(line) + "\n")
		}
		label = strings.Repeat(" ", len(label))
	}
}

// column is one of the table's.
type column struct {
	head string
	cell func(slotmonitor.Slot) string

	// A narrow terminal lacks the column. The lowest number goes first; a column with 0 stays.
	leave int
	// A narrow terminal may cut longer cells to this many characters; 0: never.
	least int
}

var columns = []column{
	{head: "SLOT", cell: func(s slotmonitor.Slot) string { return s.Name }, least: 12},
	{head: "DATABASE", cell: func(s slotmonitor.Slot) string { return s.Database }, leave: 3},
	{head: "PLUGIN", cell: func(s slotmonitor.Slot) string { return s.Plugin }, leave: 1},
	{head: "READER", cell: readerOf, least: 12},
	{head: "WAL STATUS", cell: func(s slotmonitor.Slot) string { return s.WALStatus }, leave: 4},
	{head: "RETAINED", cell: func(s slotmonitor.Slot) string { return human.Bytes(float64(s.RetainedBytes)) }},
	{
		head: "UNCONFIRMED", leave: 2,
		cell: func(s slotmonitor.Slot) string { return human.Bytes(float64(s.UnconfirmedBytes)) },
	},
	{head: "GROWTH", cell: growthOf, leave: 5},
	{head: "TIME LEFT", cell: timeLeft},
	{head: "ALERT", cell: func(s slotmonitor.Slot) string { return s.Level.String() }},
}

const columnGap = "  "

// writeTable leaves out the columns for which the terminal has no room. --json has every figure.
func writeTable(b *strings.Builder, slots []slotmonitor.Slot, style console.Style) {
	shown, cells, widths := fitted(slots, style.Width)
	for i, row := range cells {
		for j, cell := range row {
			text := cell + strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell))
			switch {
			case j == len(row)-1 && i > 0:
				text = painted(style, slots[i-1].Level)
			case j == len(row)-1:
				text = cell
			}
			if j < len(shown)-1 {
				text += columnGap
			}
			b.WriteString(text)
		}
		b.WriteByte('\n')
	}
}

// fitted returns the columns that a width has room for, the cells below their heads, and the columns' widths. Width 0
// has room for all.
func fitted(slots []slotmonitor.Slot, width int) (shown []column, cells [][]string, widths []int) {
	shown = slices.Clone(columns)
	for leave := 1; ; leave++ {
		cells, widths = texts(shown, slots)
		at := slices.IndexFunc(shown, func(c column) bool { return c.leave == leave })
		if width == 0 || total(widths) <= width || at < 0 {
			break
		}
		shown = slices.Delete(shown, at, at+1)
	}
	for j := len(shown) - 1; j >= 0 && width > 0; j-- {
		over := total(widths) - width
		if over <= 0 || shown[j].least == 0 || widths[j] <= shown[j].least {
			continue
		}
		widths[j] = max(widths[j]-over, shown[j].least)
		for _, row := range cells {
			if runes := []rune(row[j]); len(runes) > widths[j] {
				row[j] = string(runes[:widths[j]-1]) + "…"
			}
		}
	}
	return shown, cells, widths
}

func texts(shown []column, slots []slotmonitor.Slot) (cells [][]string, widths []int) {
	head := make([]string, len(shown))
	for j, c := range shown {
		head[j] = c.head
	}
	cells = [][]string{head}
	for _, s := range slots {
		row := make([]string, len(shown))
		for j, c := range shown {
			row[j] = fault.Printable(c.cell(s))
		}
		cells = append(cells, row)
	}
	widths = make([]int, len(shown))
	for _, row := range cells {
		for j, cell := range row {
			widths[j] = max(widths[j], utf8.RuneCountInString(cell))
		}
	}
	return cells, widths
}

func total(widths []int) int {
	sum := len(columnGap) * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// painted is the name of a level in its colour.
func painted(style console.Style, l alert.Level) string {
	switch l {
	case alert.Critical:
		return style.Paint(console.Red, l.String())
	case alert.Warn:
		return style.Paint(console.Yellow, l.String())
	}
	return l.String()
}

func readerOf(s slotmonitor.Slot) string {
	least := ""
	if s.InactiveAtLeast {
		least = "at least "
	}
	switch {
	case !s.Active && s.Synced:
		return "-"
	// otherwise first seen now
	case !s.Active && s.InactiveSince != nil && s.SampledAt.Sub(*s.InactiveSince) >= time.Second:
		return "nobody for " + least + human.Duration(s.SampledAt.Sub(*s.InactiveSince))
	case !s.Active:
		return "nobody"
	case s.Reader != nil && s.Reader.Application != "":
		return fmt.Sprintf("%s (pid %d)", s.Reader.Application, s.PID)
	}
	return fmt.Sprintf("pid %d", s.PID)
}

func growthOf(s slotmonitor.Slot) string {
	if s.GrowthPerSecond == nil {
		return "-"
	}
	sign := ""
	if *s.GrowthPerSecond < 0 {
		sign = "-"
	}
	return sign + human.Bytes(math.Abs(*s.GrowthPerSecond)) + "/s"
}

// timeLeft is the sooner of the two forecasts.
func timeLeft(s slotmonitor.Slot) string {
	left := math.Inf(1)
	for _, f := range []*float64{s.SecondsToLimit, s.SecondsToFull} {
		if f != nil {
			left = min(left, *f)
		}
	}
	if left > 1e9 {
		return "-"
	}
	return human.Duration(time.Duration(left) * time.Second)
}
