package main

import (
	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
)

// style is how stdout shows text.
func (a *app) style() console.Style {
	return console.Style{Colour: a.colourful(), Width: terminalWidth(a.stdout)}
}

// colourful reports whether to colour stdout (no-color.org: a variable NO_COLOR that is not empty forbids it).
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
