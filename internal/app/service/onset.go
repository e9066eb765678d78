package service

import (
	"sync"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// onset remembers since when a trouble of the slot or its server lasts: a wait has the time of the fact, not of the
// query. The zero value belongs to a command, which knows nothing of the time before it and leaves that at zero.
type onset struct {
	mu    sync.Mutex
	since map[string]time.Time // by kind of the wait
	now   func() time.Time     // nil: of a command
}

// toldOf is the onset of what a connector has said it waits for.
func toldOf(waits []fault.Wait) *onset {
	o := &onset{since: map[string]time.Time{}}
	for _, w := range waits {
		o.since[w.Kind] = w.Since
	}
	return o
}

// date sets the times of the waits about the slot and its server, and forgets the times of waits that are over.
func (o *onset) date(waits []fault.Wait) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lasts := map[string]time.Time{}
	for i := range waits {
		w := &waits[i]
		switch w.Kind {
		case waitPostgres, waitSlotMissing, waitSlotLost:
		default:
			continue
		}
		since, known := o.since[w.Kind]
		if !known && o.now != nil {
			since, known = o.now().UTC(), true
		}
		if known && (w.Since.IsZero() || since.Before(w.Since)) {
			w.Since = since
		}
		lasts[w.Kind] = w.Since
	}
	o.since = lasts
}
