package service

import (
	"context"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/lastword"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// addLastWord adds to a status why the relay ended, as the checkpoint's table has it. If no connector runs, that is
// also why its slot is not read.
func addLastWord(ctx context.Context, c *config.Loaded, st *Status) {
	w, _, err := wiring.LastWord(c).Read(ctx)
	if err != nil || !w.Current() {
		return // the fault of the server is reported elsewhere
	}
	slot := st.ReplicationSlot
	if slot != nil && slot.Active {
		return // another process works, or is about to
	}
	st.LastWord = w
	if st.State.Name == notRunning && (st.Cause.Code == slotmonitor.CauseNoConsumer || st.Cause.Code == "") {
		st.Cause = lastCause(w)
	}
}

// addLastConfirmed adds to a status when its slot was last confirmed, if the server does not say since when no session
// reads the slot.
func addLastConfirmed(ctx context.Context, c *config.Loaded, st *Status) {
	slot := st.ReplicationSlot
	if slot == nil || slot.Active || !slot.InactiveAtLeast {
		return
	}
	at, err := wiring.LastWord(c).Confirmed(ctx)
	if err != nil || at == nil {
		return // the fault of the server is reported elsewhere
	}
	st.LastConfirmed = at
	if st.Cause.Code == slotmonitor.CauseNoConsumer {
		st.Cause.Sentence += " Its position was last confirmed at " + human.Time(*at) + "."
	}
}

// lastCause is the word as the cause of a slot that is not read.
func lastCause(w *lastword.Word) alert.Cause {
	return alert.Cause{Code: stopped, Sentence: w.Explain(), Since: &w.At, Next: w.Next, Commands: w.Commands}
}

// stopped is the code of the cause of a connector that has ended on an error.
const stopped = "stopped"

// LastWords returns why the relays of slots that are not read ended, by slot. It asks only if there are such slots.
func LastWords(ctx context.Context, c *config.Loaded, slots []slotmonitor.Slot) map[string]*lastword.Word {
	words := map[string]*lastword.Word{}
	for i := range slots {
		if slots[i].Active {
			continue
		}
		all, err := wiring.LastWord(c).All(ctx)
		if err != nil {
			return words
		}
		for _, s := range slots[i:] {
			if w := all[s.Name]; !s.Active && w.Current() {
				words[s.Name] = w
			}
		}
		return words
	}
	return words
}

// addPollingLastWord is addLastWord for source: polling, if nothing answers.
func addPollingLastWord(ctx context.Context, c *config.Loaded, st *polling.Status) {
	w, _, err := wiring.LastWord(c).Read(ctx)
	if err != nil || !w.Current() {
		return
	}
	st.State.Reason, st.State.Since = w.Explain(), w.At
	st.State.Next, st.State.Commands = w.Next, w.Commands
	if w.Remedy().IsZero() {
		st.State.Next, st.State.Commands = "Start it.", []string{"cdc-outbox run"}
	}
}
