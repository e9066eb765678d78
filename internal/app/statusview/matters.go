package statusview

import (
	"fmt"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// matter is one thing that an operator may have to end.
type matter struct {
	sentence string
	since    time.Time // zero: not known
	remedy   fault.Remedy
}

type matterList []matter

// matters are the cause, as each view has it, and then what the connector waits for besides.
func matters(st *service.Status) (all matterList) {
	switch c := st.Cause; c.Code {
	case "", slotmonitor.CauseIdle, slotmonitor.CauseOpenTransaction, diagnose.Streaming, diagnose.CatchingUp:
		// Nothing is wrong, or the slot's lines name the transaction.
	default:
		m := matter{sentence: c.Sentence, remedy: c.Remedy()}
		if c.Since != nil {
			m.since = *c.Since
		}
		all = append(all, m)
	}
	if h := st.Halted; h != nil && !all.tell(h.Message) {
		what := "event " + h.EventID
		if h.EventID == "" {
			what = "the change"
		}
		all = append(all, matter{
			sentence: fmt.Sprintf("Halted at %s, LSN %s: %s", what, h.LSN, h.Message), since: h.Since,
			remedy: h.Remedy(),
		})
	}
	if r := st.State.Remedy(); st.Halted == nil && !r.IsZero() && !all.tell(fact(st.State.Reason)) {
		all = append(all, matter{sentence: st.State.Reason, since: st.State.Since, remedy: r})
	}
	for _, w := range st.Waits {
		if !all.tell(w.Sentence()) && (w.Kind != st.Cause.Code || !all.tell(w.Reason)) {
			all = append(all, matter{sentence: w.Sentence(), since: w.Since, remedy: w.Remedy()})
		}
	}
	return all
}

// tell reports whether one of them says the text.
func (all matterList) tell(text string) bool {
	text = core(text)
	for _, m := range all {
		if text != "" && strings.Contains(m.sentence, text) {
			return true
		}
	}
	return false
}

// toldBy reports whether the text says one of them.
func (all matterList) toldBy(text string) bool {
	return all.without(text) != strings.TrimSuffix(text, ".")
}

// without is the text up to the first of them that it says; empty where nothing is left but an introduction.
func (all matterList) without(text string) string {
	text = strings.TrimSuffix(text, ".")
	for _, m := range all {
		for _, said := range []string{core(m.sentence), fact(m.sentence)} {
			if before, _, found := strings.Cut(text, said); found && said != "" {
				return strings.TrimRight(strings.TrimSpace(before), ":")
			}
		}
	}
	return text
}

func core(text string) string { return strings.TrimSuffix(text, ".") }

// fact is a sentence without the words that lead to it, such as "Halted at event 7, LSN 0/1: ".
func fact(sentence string) string {
	if _, after, ok := strings.Cut(sentence, ": "); ok {
		return core(after)
	}
	return core(sentence)
}

func (all matterList) write(b *strings.Builder, state relay.StateName, style console.Style) {
	switch {
	case len(all) > 0:
		b.WriteString("waits for\n")
	case state == relay.NotRunning:
		style.Line(b, "", 0, "what it waits for is known only while it runs and answers at http.listen")
	default:
		b.WriteString("waits for nothing\n")
	}
	for _, m := range all {
		text := fault.Printable(m.sentence)
		if !m.since.IsZero() {
			text += " (since " + human.Time(m.since) + ")"
		}
		style.Line(b, "  - ", 4, text)
		style.Remedy(b, "next: ", m.remedy)
	}
}
