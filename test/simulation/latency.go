package simulation

import (
	"slices"
	"time"
)

// prompt is what half of the events take at most where nothing goes wrong. The rest may wait for a window that is full
// of a large transaction.
const prompt = 150 * time.Millisecond

// betweenLooks is the longest pause of the standby gate.
const betweenLooks = 100 * time.Millisecond

// judgeLatency: without faults, and with delivery at least once, events reach Kafka at once.
func (w *world) judgeLatency() {
	if w.plan.ExactlyOnce || slices.ContainsFunc(w.plan.Steps, func(s Step) bool {
		return s.Kind != Commit && s.Kind != Foreign && s.Kind != SaveSlot
	}) {
		return
	}
	var took []time.Duration
	log := w.postgres.Log()
	w.mu.Lock()
	for _, t := range log {
		if w.plan.Polling > 0 && len(t.Rows) > w.plan.Polling*w.plan.Batch {
			continue // its rows wait for the batches before theirs
		}
		for _, row := range t.Rows {
			if all := w.arrived[row.ID]; len(all) > 0 && t.At.Sub(w.began) > time.Second {
				took = append(took, all[0].At.Sub(t.At))
			}
		}
	}
	w.mu.Unlock()
	slices.Sort(took)
	limit := prompt
	if w.plan.Gate != "" {
		limit += 2*w.plan.Lag + betweenLooks
	}
	if len(took) > 0 && took[len(took)/2] > limit {
		w.wrong("L", "half of the events took more than %s from the commit to Kafka", took[len(took)/2])
	}
}
