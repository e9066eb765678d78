package main

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
)

// patience is for how long a command is silent about its wait. A broker that is down is waited for half a minute, in
// which a person thinks that the command hangs.
const patience = 2 * time.Second

// progress shows on stderr an engine's reports: on a terminal in one line that is drawn again and again, elsewhere
// in a line every few seconds.
func (a *app) progress() progress.Reporter {
	r := &onStderr{app: a, every: 5 * time.Second}
	if width := terminalWidth(a.stderr); width > 0 {
		r.line, r.every = drawOn(a, width), 200*time.Millisecond
	}
	return r
}

type onStderr struct {
	*app
	line  *statusLine // nil if stderr is not a terminal
	every time.Duration
	meter progress.Meter
	shown time.Time
}

func (a *onStderr) Say(line string) { fmt.Fprintln(a.stderr, line) }

// Step shows the first step, and then no more than one in a while: a log is not to be flooded. Work that is complete at
// its first step is not worth a line.
func (a *onStderr) Step(s progress.Step) {
	now := time.Now()
	if now.Sub(a.shown) < a.every {
		return
	}
	text := fault.Printable(a.meter.Line(s, now))
	switch {
	case a.line != nil:
		a.line.draw(text)
	case s.Total > 0 && s.Done >= s.Total && a.shown.IsZero():
	default:
		fmt.Fprintln(a.stderr, text)
	}
	a.shown = now
}

// Wait names the command's wait once it lasts, and again only after there was nothing to wait for.
func (a *onStderr) Wait(wait progress.Wait) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(patience / 8)
		defer tick.Stop()
		said := false
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			what, since := wait()
			lasts := what != "" && time.Since(since) >= patience
			if lasts && !said {
				fmt.Fprintln(a.stderr, "Waiting for "+fault.Printable(what))
			}
			said = lasts
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
