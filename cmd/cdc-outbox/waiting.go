package main

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/progress"
)

// patience is for how long a command is silent about what it waits for. A broker that is down is waited for half a
// minute, in which a person thinks that the command hangs.
const patience = 2 * time.Second

// progress shows on stderr what an engine reports.
func (a *app) progress() progress.Reporter { return onStderr{a} }

type onStderr struct{ *app }

func (a onStderr) Say(line string) { fmt.Fprintln(a.stderr, line) }

// Wait says what the command waits for once it lasts. What is said stays said until there was nothing to wait for.
func (a onStderr) Wait(wait progress.Wait) (stop func()) {
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
