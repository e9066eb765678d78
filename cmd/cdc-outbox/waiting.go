package main

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/kafka/reader"
)

// patience is for how long a command is silent about what it waits for. A broker that is down is waited for half a minute,
// in which a person thinks that the command hangs.
const patience = 2 * time.Second

// watch says on stderr what the command waits for, until stop is called. why tells it, and is empty while it waits for nothing
// that is worth a word; it is called from another goroutine. What is said stays said until why has been empty.
func (a *app) watch(why func() string) (stop func()) {
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
			text := why()
			if text != "" && !said {
				fmt.Fprintln(a.stderr, "Waiting for "+fault.Printable(text))
			}
			said = text != ""
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// watchReader is watch for what is read from Kafka.
func (a *app) watchReader(r *reader.Reader) (stop func()) {
	return a.watch(func() string {
		w := r.Waits()
		switch {
		case w == nil || time.Since(w.Since) < patience:
			return ""
		case w.Err == nil:
			return w.Object + ": no broker has answered yet"
		}
		return fmt.Sprintf("%s: %v", w.Object, w.Err)
	})
}

// watchFor is watch for something that is waited for from now on.
func (a *app) watchFor(what string) (stop func()) {
	began := time.Now()
	return a.watch(func() string {
		if time.Since(began) < patience {
			return ""
		}
		return what
	})
}
