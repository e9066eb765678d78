package statusview

import (
	"fmt"
	"io"
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
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// Write prints the status for people. What is wrong is said once, at the end, with what to do about it.
func Write(w io.Writer, st service.Status, source string, style console.Style) error {
	var b strings.Builder
	all := matters(&st)
	style.Line(&b, "", 0, Verdict(&st, style))
	writeAlerts(&b, &st, all, style)
	writeGaps(&b, &st, style)
	slot := block{title: "slot " + st.Slot}
	if s := st.ReplicationSlot; s != nil {
		slotLines(slot.line, s, st.Alerts)
		if st.LastConfirmed != nil {
			slot.line("last confirmed", "%s", human.Time(*st.LastConfirmed))
		}
		if !all.tell(st.Cause.Sentence) {
			slot.line("why", "%s", st.Cause.Sentence)
		}
	} else {
		slot.line("state", "%s", noSlot(st))
	}
	if w := st.OwnConnection; w != nil {
		why := ", for the same reason"
		if !all.tell(w.Reason) {
			why = ": " + w.Object + ": " + w.Reason
		}
		slot.line("seen by", "the connector; this command cannot ask%s", why)
	}
	slot.write(&b, style)
	connector := block{title: "connector " + source}
	connector.line("state", "%s", stateText(st.State, all, st.Cause.Code == diagnose.Standby))
	if st.State.Name != relay.NotRunning {
		connectorLines(connector.line, &st, all)
	} else if st.LastWord != nil && !all.tell(st.LastWord.Explain()) {
		connector.line("last run", "%s", st.LastWord.Explain())
	}
	connector.write(&b, style)
	all.write(&b, st.State.Name, style)
	_, err := io.WriteString(w, b.String())
	return err
}

// block is a title and lines with labels below it.
type block struct {
	title string
	lines [][2]string
	wide  int
}

func (k *block) line(label, format string, args ...any) {
	k.lines = append(k.lines, [2]string{label, fault.Printable(fmt.Sprintf(format, args...))})
	k.wide = max(k.wide, utf8.RuneCountInString(label))
}

func (k *block) write(b *strings.Builder, style console.Style) {
	style.Line(b, "", 0, k.title)
	for _, l := range k.lines {
		prefix := fmt.Sprintf("  %-*s  ", k.wide, l[0])
		style.Line(b, prefix, utf8.RuneCountInString(prefix), l[1])
	}
}

// writeAlerts prints the alerts that the connector reports. Alerts about the slot's own figures are among them.
func writeAlerts(b *strings.Builder, st *service.Status, all matterList, style console.Style) {
	for _, a := range st.Alerts {
		sign := style.Paint(console.Yellow, "!")
		if a.Level == alert.Critical {
			sign = style.Paint(console.Red, "✗")
		}
		text := fmt.Sprintf("%s, since %s", a.Rule, human.Time(a.Since))
		if a.Rule == diagnose.EventsMayBeMissing || !all.toldBy(a.Sentence) {
			text += ": " + fault.Printable(a.Sentence)
		}
		style.Line(b, sign+" ", 2, text)
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
			style.Line(b, style.Paint(console.Red, "✗")+" ", 2, fault.Printable(st.Gaps[i].Sentence()))
		}
	}
	if len(st.Gaps) > 0 {
		style.Remedy(b, "next: ", gap.Remedy(st.Gaps))
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

func slotLines(line func(string, string, ...any), s *slotmonitor.Slot, told []service.FiringAlert) {
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
		if slices.ContainsFunc(told, func(t service.FiringAlert) bool { return t.Sentence == a.Sentence }) {
			continue
		}
		line(a.Level.String(), "%s", a.Sentence)
	}
}

func connectorLines(line func(string, string, ...any), st *service.Status, all matterList) {
	line("ready", "%s", readyText(st.Ready, st.ReadyReason, st.State.Reason, all))
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

func readyText(ready bool, why, state string, all matterList) string {
	if ready {
		return "yes"
	}
	rest := all.without(why)
	if rest == "" || state != "" && strings.HasSuffix(why, state) {
		return "no" // the state or what it waits for says why
	}
	return "no: " + rest
}

// stateText leaves the reason out if another line says it.
func stateText(st relay.State, all matterList, said bool) string {
	text := strings.ReplaceAll(string(st.Name), "_", " ")
	if st.Reason != "" && !all.tell(fact(st.Reason)) && !said {
		text += ": " + st.Reason
	}
	if st.Name != relay.NotRunning && !st.Since.IsZero() {
		text += ", since " + human.Time(st.Since)
	}
	return text
}

// WriteCause prints the answer of status --why.
func WriteCause(w io.Writer, c alert.Cause, style console.Style) error {
	var b strings.Builder
	style.Line(&b, "", 0, c.Code+": "+fault.Printable(c.Sentence))
	if c.Object != "" {
		style.Line(&b, "", 0, "object: "+fault.Printable(c.Object))
	}
	if c.Since != nil {
		fmt.Fprintf(&b, "since: %s\n", human.Time(*c.Since))
	}
	style.Remedy(&b, "next: ", c.Remedy())
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
