package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/preflight"
)

// marks are the sign and the colour (ANSI) of each level.
var marks = map[preflight.Level]struct{ sign, colour string }{
	preflight.OK:   {"✓", "\x1b[32m"},
	preflight.Warn: {"!", "\x1b[33m"},
	preflight.Fail: {"✗", "\x1b[31m"},
}

// writeFindings prints a finding a paragraph: what was found, why it matters, what fixes it.
func writeFindings(w io.Writer, findings []preflight.Finding, colour bool) error {
	var b strings.Builder
	for _, f := range findings {
		m := marks[f.Level]
		sign := m.sign
		if colour {
			sign = m.colour + m.sign + "\x1b[0m"
		}
		fmt.Fprintf(&b, "%s %s: %s\n", sign, fault.Printable(f.Subject), fault.Printable(f.Found))
		paragraph(&b, "why: ", f.Why)
		writeRemedy(&b, "fix: ", f.ToDo())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// paragraph indents a text of several lines below its label.
func paragraph(b *strings.Builder, label, text string) {
	if text == "" {
		return
	}
	indented(b, label, strings.Split(strings.TrimRight(text, "\n"), "\n"))
}

// writeRemedy prints a remedy like a paragraph, each command on a line of its own.
func writeRemedy(b *strings.Builder, label string, r fault.Remedy) { indented(b, label, r.Lines()) }

func indented(b *strings.Builder, label string, lines []string) {
	for i, line := range lines {
		if i > 0 {
			label = strings.Repeat(" ", len(label))
		}
		b.WriteString("    " + label + fault.Printable(line) + "\n")
	}
}

// colourful reports whether to colour what goes to stdout (no-color.org: a variable NO_COLOR that is not empty forbids
// it).
func (a *app) colourful() bool {
	return terminal(a.stdout) && a.variable("NO_COLOR") == "" && a.variable("TERM") != "dumb"
}

// count counts the findings of a level.
func count(findings []preflight.Finding, level preflight.Level) int {
	n := 0
	for _, f := range findings {
		if f.Level == level {
			n++
		}
	}
	return n
}
