package simulation

import (
	"slices"
	"time"
)

const (
	// written is how long after its publication an event's position is in the checkpoint and in the slot, at most.
	written = 3 * time.Second
	// aftermath is how long a fault may still delay that when it is over: every retry waits less.
	aftermath = 20 * time.Second
)

// excused reports whether a fault may have kept the position of an event that was published then from being written.
func (w *world) excused(published time.Time) bool {
	at := published.Sub(w.began)
	for _, s := range w.plan.Steps {
		if !slices.Contains(harmless, s.Kind) && s.At-time.Second <= at+written && at <= s.At+s.For+aftermath {
			return true
		}
	}
	return false
}

// judgeRepeats: an event whose position had time to be written is not published again, whatever happens later. Unless
// the table cannot be read when a server that has crashed is connected to.
func (w *world) judgeRepeats() {
	if w.plan.NoMemory || w.restored || w.promoted || w.plan.has(Deny) {
		return
	}
	for _, p := range w.kafka.Partitions() {
		first := map[string]time.Time{}
		for i := range p.Log {
			r := &p.Log[i]
			if !r.Committed() {
				continue
			}
			at, again := first[r.Value]
			if !again {
				first[r.Value] = r.At
			} else if !w.excused(at) {
				w.wrong("D", "%s/%d: %s, published at %s, is published again at %s", p.Topic, p.Index, r.Value,
					at.Sub(w.began), r.At.Sub(w.began))
			}
		}
	}
}

// lags reports whether the slot is before the end of the last transaction.
func (w *world) lags() bool {
	state := w.postgres.Look()
	return len(state.Log) > 0 && state.Slot.Confirmed < state.Log[len(state.Log)-1].End
}
