package polling

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// Ready reports whether the relay does its work: Postgres answers, Kafka acknowledges, and no lane is stuck.
func (r *Relay) Ready() (bool, string) {
	r.mu.Lock()
	state, trouble := r.state, r.trouble
	r.mu.Unlock()
	now := time.Now()
	heard := r.heard.Load()
	if h := r.haltedRows(); len(h) > 0 {
		return false, fmt.Sprintf("%d of %d lanes halted, one at event %s: %s", len(h), Lanes*len(r.sources),
			h[0].EventID, h[0].Message)
	}
	paused := r.paused.Load()
	switch {
	case paused != nil && state.Name != relay.Draining && state.Name != relay.Stopped:
		return false, paused.State().Reason
	case state.Name == relay.Draining || state.Name == relay.Stopped || heard == 0:
		if state.Reason != "" {
			return false, fmt.Sprintf("%s: %s", state.Name, state.Reason)
		}
		return false, string(state.Name)
	case trouble != nil:
		return false, fmt.Sprintf("%s: %s", state.Name, state.Reason)
	}
	if w := r.lockedLanes(); len(w) > 0 {
		return false, w[0].Sentence()
	}
	for _, w := range r.schemaWaits() {
		if age := now.Sub(w.Since); age > r.cfg.Stall {
			return false, fmt.Sprintf("rows were not published for %s: %s", human.Duration(age), w.Sentence())
		}
	}
	var oldest time.Duration
	for _, w := range r.workers {
		oldest = max(oldest, w.batch.waited(now))
	}
	if oldest > r.cfg.Stall {
		why := fmt.Sprintf("Kafka has not acknowledged the oldest event for %s", human.Duration(oldest))
		if t := r.producer.Trouble(); len(t) > 0 {
			why += ": " + t[0].Wait().Sentence()
		}
		return false, why
	}
	if silent := now.Sub(time.Unix(0, heard)); silent > max(r.cfg.Stall, 2*r.cfg.Interval) {
		return false, fmt.Sprintf("nothing was heard from Postgres for %s", human.Duration(silent))
	}
	return true, "polling"
}
