package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
)

var meanings = map[Kind]string{
	Unpublished: "committed, and the relay has not confirmed them",
	Unhandled:   "published, and not handled",
	Unfinished:  "begun, and it is not known whether they had their effect",
	SameID:      "rows with the id of another row, which are never handled",
	Ghost:       "handled, and not in the outbox",
}

// Text is the report for a person.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "window: %s to %s\n", r.Since.Format(time.RFC3339), r.Until.Format(time.RFC3339))
	if r.HeldBack != nil {
		b.WriteString(r.HeldBack.text())
	}
	if r.Archives != nil {
		fmt.Fprintf(&b, "archives: %s, %s; %d passed over\n", human.Counted(r.Archives.Rows, "row", "rows"),
			human.Counted(int64(r.Archives.Files), "file", "files"), r.Archives.PassedOver)
	}
	for _, u := range r.Unseen {
		fmt.Fprintf(&b, "not seen: %s before %s, where it has no rows; if prune has deleted them, name their archive "+
			"with --archive\n", u.Table, u.Until.Format(time.RFC3339))
	}
	for i := range r.Consumers {
		c := &r.Consumers[i]
		fmt.Fprintf(&b, "%s: %s of %s handled", fault.Printable(c.Name), human.Count(c.Handled),
			human.Counted(c.Events, "event", "events"))
		if c.Handled > 0 {
			fmt.Fprintf(&b, "; commit to handled: median %s, 90%% %s, 99%% %s, longest %s", seconds(c.Seconds.P50),
				seconds(c.Seconds.P90), seconds(c.Seconds.P99), seconds(c.Seconds.Max))
		}
		if c.Events > 0 {
			fmt.Fprintf(&b, "; within %s: %s", seconds(r.Within), share(c.Events-c.Late, c.Events))
		}
		b.WriteString("\n")
		for _, kind := range Kinds() {
			f, ok := c.Findings[kind]
			if !ok {
				continue
			}
			fmt.Fprintf(&b, "✗ %s: %s %s; oldest %s\n", kind, human.Count(f.Count), meanings[kind],
				seconds(f.OldestSeconds))
			for _, e := range f.Examples {
				fmt.Fprintf(&b, "    %s  %s\n", fault.Printable(e.ID), e.At.Format(time.RFC3339))
			}
			if more := f.Count - int64(len(f.Examples)); more > 0 {
				fmt.Fprintf(&b, "    and %s more\n", human.Count(more))
			}
		}
		if c.NotJudged > 0 {
			fmt.Fprintf(&b, "not judged: %s handled without a row; the table may have lost their rows to prune\n",
				human.Count(c.NotJudged))
		}
	}
	switch {
	case r.Clean && !r.judged():
		b.WriteString("✓ no event lies in the window; --grace says how long ago it ends, --since how long it is\n")
	case r.Clean && len(r.Unseen) > 0:
		b.WriteString("✓ every event that the audit has seen was published and handled once\n")
	case r.Clean:
		b.WriteString("✓ every event of the window was published and handled once\n")
	}
	return b.String()
}

// judged reports whether there was an event.
func (r *Report) judged() bool {
	return slices.ContainsFunc(r.Consumers, func(c Consumer) bool { return c.Events > 0 })
}

// share is a part of the whole in percent, rounded down: 100% is all of it.
func share(part, whole int64) string {
	return fmt.Sprintf("%g%%", math.Floor(float64(part)/float64(whole)*100_000)/1000)
}

func seconds(s float64) string { return human.Duration(time.Duration(s * float64(time.Second))) }

// Prometheus is the report for the textfile collector of node_exporter.
func (r *Report) Prometheus() string {
	var b strings.Builder
	head := func(name, help string) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s gauge\n", name, help)
	}
	head("cdc_outbox_audit_timestamp_seconds", "End of the audited window, Unix time.")
	fmt.Fprintf(&b, "cdc_outbox_audit_timestamp_seconds %d\n", r.Until.Unix())
	head("cdc_outbox_audit_unseen_seconds", "Part of the window in which a table and its archives have no rows.")
	var unseen time.Duration
	for _, u := range r.Unseen {
		unseen = max(unseen, u.Until.Sub(r.Since))
	}
	fmt.Fprintf(&b, "cdc_outbox_audit_unseen_seconds %g\n", unseen.Seconds())
	head("cdc_outbox_audit_events", "Events of the window.")
	for i := range r.Consumers {
		c := &r.Consumers[i]
		fmt.Fprintf(&b, "cdc_outbox_audit_events{consumer=%q} %d\n", c.Name, c.Events)
	}
	head("cdc_outbox_audit_within_seconds", "The objective for the time from commit to handling.")
	fmt.Fprintf(&b, "cdc_outbox_audit_within_seconds %g\n", r.Within)
	head("cdc_outbox_audit_late_events", "Events of the window that were not handled within the objective.")
	for i := range r.Consumers {
		c := &r.Consumers[i]
		fmt.Fprintf(&b, "cdc_outbox_audit_late_events{consumer=%q} %d\n", c.Name, c.Late)
	}
	head("cdc_outbox_audit_findings", "Events of the window that were not published and handled once, by kind.")
	for i := range r.Consumers {
		for _, kind := range Kinds() {
			c := &r.Consumers[i]
			fmt.Fprintf(&b, "cdc_outbox_audit_findings{consumer=%q,kind=%q} %d\n", c.Name, kind, c.Findings[kind].Count)
		}
	}
	head("cdc_outbox_audit_commit_to_handled_seconds", "Time from commit to handling of the window's events.")
	for i := range r.Consumers {
		c := &r.Consumers[i]
		for _, q := range []struct {
			name  string
			value float64
		}{{"0.5", c.Seconds.P50}, {"0.9", c.Seconds.P90}, {"0.99", c.Seconds.P99}, {"1", c.Seconds.Max}} {
			fmt.Fprintf(&b, "cdc_outbox_audit_commit_to_handled_seconds{consumer=%q,quantile=%q} %g\n", c.Name, q.name,
				q.value)
		}
	}
	return b.String()
}
