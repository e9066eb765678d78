package statusview

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// Write prints the status for people.
func Write(w io.Writer, st service.Status, source string, style console.Style) error {
	var b strings.Builder
	b.WriteString(Verdict(&st, style) + "\n")
	writeAlerts(&b, &st, style)
	writeGaps(&b, &st, style)
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(tw, "  %s\t%s\n", label, fault.Printable(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(tw, "slot %s\n", st.Slot)
	if s := st.ReplicationSlot; s != nil {
		slotLines(line, s)
		if st.LastConfirmed != nil {
			line("last confirmed", "%s", human.Time(*st.LastConfirmed))
		}
		line("why", "%s", st.Cause.Sentence)
	} else {
		line("state", "%s", noSlot(st))
	}
	if w := st.OwnConnection; w != nil {
		line("seen by", "the connector; this command cannot ask: %s: %s", w.Object, w.Reason)
	}
	fmt.Fprintf(tw, "connector %s\n", source)
	line("state", "%s", stateText(st))
	if st.State.Name != relay.NotRunning {
		connectorLines(line, st)
	} else if st.LastWord != nil {
		line("last run", "%s", st.LastWord.Explain())
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	writeWaits(&b, st)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeAlerts prints the alerts that the connector reports. Alerts about the slot's own figures are among them.
func writeAlerts(b *strings.Builder, st *service.Status, style console.Style) {
	for _, a := range st.Alerts {
		sign := style.Paint(console.Yellow, "!")
		if a.Level == alert.Critical {
			sign = style.Paint(console.Red, "✗")
		}
		fmt.Fprintf(b, "%s %s, since %s: %s\n", sign, a.Rule, human.Time(a.Since),
			fault.Printable(a.Sentence))
	}
}

// writeGaps prints what may be missing from Kafka, and what to do. The alert, if there is one, has said the first.
func writeGaps(b *strings.Builder, st *service.Status, style console.Style) {
	told := false
	for i := range st.Alerts {
		told = told || st.Alerts[i].Rule == diagnose.EventsMayBeMissing
	}
	for i := range st.Gaps {
		if i > 0 || !told {
			fmt.Fprintf(b, "%s %s\n", style.Paint(console.Red, "✗"), fault.Printable(st.Gaps[i].Sentence()))
		}
	}
	if len(st.Gaps) > 0 {
		console.Style{}.Remedy(b, "next: ", gap.Remedy(st.Gaps))
	}
}

// noSlot is the text in place of a slot's figures: there is no slot, or the server has not been asked.
func noSlot(st service.Status) string {
	if st.OwnConnection != nil {
		return "not known"
	}
	for _, w := range st.Waits {
		switch w.Kind {
		case diagnose.PostgresUnreachable:
			return "not known, Postgres cannot be asked"
		case diagnose.SlotMissing:
			return "there is no slot of this name"
		}
	}
	return "not looked at yet"
}

func slotLines(line func(string, string, ...any), s *slotmonitor.Slot) {
	reader := "nobody"
	if s.Active {
		reader = fmt.Sprintf("pid %d", s.PID)
	} else if s.InactiveAtLeast {
		reader += "; " + s.UnknownSince()
	} else if s.InactiveSince != nil {
		reader += " since " + human.Time(*s.InactiveSince)
	}
	line("held by", "%s", reader)
	line("database", "%s, plugin %s", s.Database, s.Plugin)
	line("WAL status", "%s", strings.TrimSpace(s.WALStatus+" "+s.InvalidationReason))
	line("retained WAL", "%s behind restart_lsn %s", human.Bytes(float64(s.RetainedBytes)), s.RestartLSN)
	line("unconfirmed WAL", "%s behind confirmed_flush_lsn %s", human.Bytes(float64(s.UnconfirmedBytes)),
		s.ConfirmedFlushLSN)
	if s.SafeBytes != nil {
		line("until it is lost", "%s may still be written", human.Bytes(float64(*s.SafeBytes)))
	}
	for i := range s.Open {
		t := &s.Open[i]
		line("open transaction", "%s; %s, user %s", t, orUnknown(t.State), orUnknown(t.User))
		for _, next := range (fault.Remedy{Next: t.Next, Commands: t.Commands}).Lines() {
			line("", "%s", next)
		}
	}
	for _, a := range s.Alerts {
		line(a.Level.String(), "%s", a.Sentence)
	}
}

func connectorLines(line func(string, string, ...any), st service.Status) {
	ready := "yes"
	if !st.Ready {
		ready = "no: " + st.ReadyReason
		if st.State.Reason != "" && strings.HasSuffix(st.ReadyReason, st.State.Reason) {
			ready = "no" // the state above says why
		}
	}
	line("ready", "%s", ready)
	if broker := st.Promises.Of(sink.PromiseBroker); broker != "" {
		line("delivery", "%s", broker)
	}
	line("confirmed", "%s", orNone(st.ConfirmedLSN))
	if st.HeardSecondsAgo == nil {
		line("received", "none yet, not heard from Postgres yet")
	} else {
		line("received", "%s, heard from Postgres %.1f s ago", st.ReceivedLSN, *st.HeardSecondsAgo)
	}
	oldest := human.Duration(time.Duration(st.OldestUnconfirmedSeconds * float64(time.Second)))
	if st.OldestUnconfirmedSeconds == 0 && !st.State.Name.Reads() {
		oldest = "not known"
	}
	line("oldest unconfirmed", "%s", oldest)
	line("in flight", "%d of %d records, %s of %s", st.Window.Records, st.Window.MaxRecords,
		human.Bytes(float64(st.Window.Bytes)), human.Bytes(float64(st.Window.MaxBytes)))
	line("published", "%d since it started, %d skipped", st.Counts.Published, st.Counts.Skipped)
}

func stateText(st service.Status) string {
	text := strings.ReplaceAll(string(st.State.Name), "_", " ")
	if st.State.Reason != "" {
		text += ": " + st.State.Reason
	}
	if st.State.Name != relay.NotRunning && !st.State.Since.IsZero() {
		text += ", since " + human.Time(st.State.Since)
	}
	return text
}

// writeWaits prints the waits that an operator may have to end.
func writeWaits(b *strings.Builder, st service.Status) {
	if st.Halted == nil && len(st.Waits) == 0 && st.State.Remedy().IsZero() {
		if st.State.Name == relay.NotRunning {
			b.WriteString("what it waits for is known only while it runs and answers at http.listen\n")
			return
		}
		b.WriteString("waits for nothing\n")
		return
	}
	b.WriteString("waits for\n")
	if h := st.Halted; h != nil {
		what := "event " + fault.Printable(h.EventID)
		if h.EventID == "" {
			what = "the change"
		}
		fmt.Fprintf(b, "  - %s at LSN %s: %s\n", what, h.LSN, fault.Printable(h.Message))
		console.Style{}.Remedy(b, "next: ", h.Remedy())
	}
	if st.Halted == nil && !st.State.Remedy().IsZero() {
		fmt.Fprintf(b, "  - the connector: see its state (since %s)\n", human.Time(st.State.Since))
		console.Style{}.Remedy(b, "next: ", st.State.Remedy())
	}
	for _, w := range st.Waits {
		if short, cause, ok := strings.Cut(w.Reason, ": "); ok && w.Kind == diagnose.PostgresUnreachable &&
			strings.Contains(st.State.Reason, cause) {
			w.Reason = short // the state above says why
		}
		fmt.Fprintf(b, "  - %s (since %s)\n", fault.Printable(w.Sentence()), human.Time(w.Since))
		console.Style{}.Remedy(b, "next: ", w.Remedy())
	}
}

// WriteCause prints the answer of status --why.
func WriteCause(w io.Writer, c alert.Cause) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", c.Code, fault.Printable(c.Sentence))
	if c.Object != "" {
		fmt.Fprintf(&b, "object: %s\n", fault.Printable(c.Object))
	}
	if c.Since != nil {
		fmt.Fprintf(&b, "since: %s\n", human.Time(*c.Since))
	}
	console.Style{}.Remedy(&b, "next: ", c.Remedy())
	_, err := io.WriteString(w, b.String())
	return err
}

func orUnknown(s string) string {
	if s == "" {
		return "not visible to this role"
	}
	return s
}

func orNone(s string) string {
	if s == "" {
		return "none yet"
	}
	return s
}
