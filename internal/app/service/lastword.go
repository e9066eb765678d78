package service

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert/webhook"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/lastword"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
)

// lastWord is a process's report of the error on which it ends, or because of which it stays: in the checkpoint's
// table, and to the webhook. The row remembers the report across restarts, so a crash loop reports each reason once in
// monitor.repeat_interval, and a healthy start reports nothing unless there is a report to take back.
type lastWord struct {
	webhook *webhook.Sender // nil: no webhook is configured
	slot    string          // empty with source: polling
	place   lastword.Place
	who     lastword.Who
	repeat  time.Duration
	log     *zap.Logger

	mu     sync.Mutex
	asked  bool           // the row was read
	known  bool           // the row can hold a word
	before *lastword.Word // the word in the row; nil: none
	back   bool           // the earlier word was taken back
	worked bool           // the relay was ready in this attempt
}

// newLastWord is the last word of a process. Its row is the slot's; with source: polling it has one of its own.
func newLastWord(p *process, slot string) *lastWord {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return &lastWord{
		webhook: p.webhook, slot: slot, repeat: p.Config.Monitor.RepeatInterval, log: p.Logger,
		who:   lastword.Who{Version: p.Build.Version, Host: host, PID: os.Getpid()},
		place: wiring.LastWord(p.Config),
	}
}

// recall reads, once, the last word of the process before this one, and logs it.
func (w *lastWord) recall(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked {
		return
	}
	before, known, err := w.place.Read(ctx)
	if err != nil {
		w.log.Debug("the last word of the previous run could not be read", zap.Error(err))
		return
	}
	w.asked, w.known, w.before = true, known, before
	if before.Current() && before.PID != 0 {
		w.log.Warn("the previous run ended on an error that was not followed by a working one",
			append(telemetry.RemedyFields(before.Remedy()), zap.String(logkey.Sentence, before.Explain()))...)
	}
}

// Say reports why the process ends.
func (w *lastWord) Say(err error) {
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	said := lastword.Of(err, true, w.who, time.Now())
	if w.webhook != nil {
		if w.repeats(said) {
			said.Told = w.before.Told
		} else {
			said.Told = &said.At
			e := w.alert(fmt.Sprintf("The connector has stopped with exit code %d: %s", said.ExitCode, said.Sentence))
			e.Cause = alert.Cause{
				Code: "stopped", Sentence: said.Sentence, Next: said.Next, Commands: said.Commands,
			}
			w.webhook.Send(e)
		}
	}
	w.writeRow(said)
}

// Stays keeps why the process waits for an operator. The monitor's alert about it is sent as any other; see pass.
func (w *lastWord) Stays(err error, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := lastword.Of(err, false, w.who, time.Now())
	if w.repeats(said) {
		said.Told = w.before.Told
	} else if w.webhook != nil {
		said.Told = new(said.At)
	}
	said.At = since.UTC().Truncate(time.Millisecond)
	w.back = false
	w.writeRow(said)
}

// repeats reports whether the webhook has heard this reason lately, and not since that it is over. w.mu is held.
func (w *lastWord) repeats(said lastword.Word) bool {
	return w.before.Current() && w.before.Same(said) && w.before.ToldWithin(w.repeat, said.At)
}

// writeRow writes the word down. It never takes longer than lastword.Patience. w.mu is held.
func (w *lastWord) writeRow(said lastword.Word) {
	w.before = &said
	kept, err := w.place.Write(context.Background(), said)
	if err != nil || !kept {
		w.log.Debug("the last word is only in this log: the checkpoint's table could not keep it", zap.Error(err))
	}
	w.known = kept
}

// takeBack takes back, once, the word of this process or of one before it.
func (w *lastWord) takeBack(ctx context.Context) {
	w.recall(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.back {
		return
	}
	w.back = true
	told := !w.known || w.before.Current() && w.before.Told != nil // if no word can be kept, one may have been sent
	if w.before.Current() {
		now := time.Now().UTC()
		w.before.Over = &now
		if err := w.place.End(ctx, now); err != nil {
			w.log.Debug("the last word could not be marked as over", zap.Error(err))
		}
	}
	if told && w.webhook != nil {
		e := w.alert("The connector works.")
		e.State = alert.Resolved
		w.webhook.Send(e)
	}
}

func (w *lastWord) setWorked(worked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.worked = worked
}

// ends is for a relay that was asked to stop: if it worked, the earlier word is over, also the word of another instance
// that waited for the slot meanwhile and failed.
func (w *lastWord) ends() {
	w.mu.Lock()
	worked, current := w.worked, w.before.Current()
	w.mu.Unlock()
	switch {
	case !worked:
	case current:
		w.takeBack(context.Background())
	default:
		if err := w.place.End(context.Background(), time.Now()); err != nil {
			w.log.Debug("the last word could not be marked as over", zap.Error(err))
		}
	}
}

// TakenBack reports whether the relay has worked since something was said.
func (w *lastWord) TakenBack() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.back
}

func (w *lastWord) alert(sentence string) alert.Event {
	now := time.Now()
	return alert.Event{
		Alert: diagnose.ConnectorStopped, Subject: w.slot, State: alert.Firing, Level: alert.Critical, Since: now,
		At:       now,
		Sentence: sentence, Lasting: true,
	}
}

// settled is how long the relay has to work before the last word is taken back: a process that fails again within
// that time is in the same crash loop.
const settled = 3 * time.Second

// clearOnceWorking takes back the last word once the relay has worked for a while.
func (w *lastWord) clearOnceWorking(ctx context.Context, ready func() (bool, string)) error {
	tick := time.NewTicker(settled / 6)
	defer tick.Stop()
	var since time.Time
	w.setWorked(false)
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			ok, _ := ready()
			switch {
			case !ok:
				since = time.Time{}
			case since.IsZero():
				since = now
				w.setWorked(true)
			case now.Sub(since) >= settled:
				w.takeBack(ctx)
				return nil
			}
		}
	}
}
