// Package progress reports how far a long command is, while it works. Engines get a Reporter and know nothing
// of terminals.
package progress

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Reporter shows progress to a person.
type Reporter interface {
	// Say shows a line.
	Say(line string)
	// Step shows how far the command is. It may be called for each row: not each call is shown.
	Step(step Step)
	// Wait shows the wait until stop is called.
	Wait(wait Wait) (stop func())
}

// Wait names the event that a command waits for, and since when; empty while it waits for nothing. It is called from
// another goroutine.
type Wait func() (what string, since time.Time)

// For is a wait that begins now.
func For(what string) Wait {
	began := time.Now()
	return func() (string, time.Time) { return what, began }
}

// Reading is the wait of a reader for the broker.
func Reading(r sink.Reader) Wait {
	return func() (string, time.Time) {
		w := r.Waits()
		switch {
		case w == nil:
			return "", time.Time{}
		case w.Err == nil:
			return w.Object + ": no broker has answered yet", w.Since
		}
		return fmt.Sprintf("%s: %v", w.Object, w.Err), w.Since
	}
}
