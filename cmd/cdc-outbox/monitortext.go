package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/human"
	"github.com/cdc-outbox/cdc-outbox/internal/service"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// printLine prints a value as one line of JSON.
func (a *app) printLine(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(append(b, '\n'))
	return err
}

// writeSlots prints a table, and below it what is wrong with which slot, and why.
func writeSlots(w io.Writer, s service.Slots) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "SLOT\tDATABASE\tPLUGIN\tREADER\tWAL STATUS\tRETAINED\tUNCONFIRMED\tGROWTH\tTIME LEFT\tALERT")
	for _, slot := range s.Slots {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", slot.Name, fault.Printable(slot.Database),
			fault.Printable(slot.Plugin), fault.Printable(readerOf(slot)), slot.WALStatus,
			human.Bytes(float64(slot.RetainedBytes)), human.Bytes(float64(slot.UnconfirmedBytes)), growthOf(slot),
			timeLeft(slot), slot.Level)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(s.Slots) == 0 && s.Error == "" {
		b.WriteString("there is no logical slot\n")
	}
	for _, slot := range s.Slots {
		if len(slot.Alerts) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", slot.Name)
		for _, a := range slot.Alerts {
			fmt.Fprintf(&b, "  %s %s: %s\n", a.Level, a.Rule, fault.Printable(a.Sentence))
		}
		fmt.Fprintf(&b, "  why: %s\n", fault.Printable(slot.Cause.Sentence))
		label := "next: "
		for _, line := range slot.Cause.Remedy().Lines() {
			fmt.Fprintf(&b, "  %s%s\n", label, fault.Printable(line))
			label = strings.Repeat(" ", len(label))
		}
	}
	for _, slot := range s.Slots {
		if w := s.LastWords[slot.Name]; w != nil {
			fmt.Fprintf(&b, "\n%s\n  %s\n", slot.Name, fault.Printable(w.Explain()))
			writeNext(&b, w.Remedy())
		}
	}
	if s.Error != "" {
		fmt.Fprintf(&b, "\nthe server does not answer, so this is old: %s\n", fault.Printable(s.Error))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func readerOf(s slotmonitor.Slot) string {
	switch {
	case !s.Active && s.Synced:
		return "-"
	// otherwise first seen now
	case !s.Active && s.InactiveSince != nil && s.SampledAt.Sub(*s.InactiveSince) >= time.Second:
		return "nobody for " + strings.ToLower(human.Duration(s.SampledAt.Sub(*s.InactiveSince)))
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
	return fault.Duration(time.Duration(left) * time.Second)
}
