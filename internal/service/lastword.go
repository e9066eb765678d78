package service

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/alert/webhook"
	"github.com/cdc-outbox/cdc-outbox/internal/diagnose"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
)

// lastWord is the alert that a process has ended on an error. No scraper reaches its metrics any more, so the alert is
// sent at the end, and the next process sends that the alert is over.
type lastWord struct {
	webhook *webhook.Sender // nil: no webhook is configured
	slot    string          // empty with source: polling
	back    bool            // what was said before this process was taken back
}

// say reports to the webhook why the process ends.
func (w *lastWord) say(err error) {
	if err == nil || w.webhook == nil {
		return
	}
	why, remedy := fault.Split(err)
	e := w.alert(fmt.Sprintf("The connector has stopped with exit code %d: %s", fault.KindOf(err).ExitCode(), why))
	e.Cause = alert.Cause{Code: "stopped", Sentence: why, Next: remedy.Next, Commands: remedy.Commands}
	w.webhook.Send(e)
}

// takeBack takes back, once, what a process before this one may have said. Only the monitor's goroutine calls it.
func (w *lastWord) takeBack(ready bool) {
	if !ready || w.back || w.webhook == nil {
		return
	}
	w.back = true
	e := w.alert("The connector works.")
	e.State = alert.Resolved
	w.webhook.Send(e)
}

func (w *lastWord) alert(sentence string) alert.Event {
	now := time.Now()
	return alert.Event{
		Alert: diagnose.ConnectorStopped, Subject: w.slot, State: alert.Firing, Level: alert.Critical, Since: now,
		At:       now,
		Sentence: sentence, Lasting: true,
	}
}
