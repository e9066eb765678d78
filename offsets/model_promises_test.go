package offsets

import "fmt"

// violation is a broken promise.
type violation string

func (v violation) Error() string { return string(v) }

// check compares a state, and the step that led to it, with the promises about states and steps. The promises about the
// order of the log are checked where the log grows, in world.append.
func (w *world) check(before *world, by step) error {
	if w.memory == 0 || w.disk == 0 {
		return violation("zero: the slot's position is 0")
	}
	if err := w.checkLoss(); err != nil {
		return err
	}
	if by != stepRestart && w.memory < before.memory {
		return violation("monotone: the slot went back without a restart")
	}
	if before.tracker == nil || w.tracker == nil || by == stepRewind {
		return nil
	}
	if w.flush() < before.flush() {
		return violation(fmt.Sprintf("monotone: confirmed fell from %d to %d within a session", before.flush(),
			w.flush()))
	}
	if w.mutant <= faithfulRewinding && !w.sc.boundary(w.flush()) {
		return violation(fmt.Sprintf("boundary: confirmed is %d, neither a commit's end nor a keepalive's WAL end",
			w.flush()))
	}
	return nil
}

// checkLoss: Postgres will not send a transaction again whose commit record lies below the slot's position.
func (w *world) checkLoss() error {
	passed := max(w.memory, w.disk)
	for i := range w.sc.items {
		it := &w.sc.items[i]
		if it.commit >= passed {
			continue
		}
		for _, r := range it.rows {
			if row := w.sc.rows[r]; row.ord >= w.log[row.key] {
				return violation(fmt.Sprintf("loss: the slot is at %d (saved %d), past tx%d, whose row of key %c is "+
					"not in the log",
					w.memory, w.disk, row.tx, 'a'+row.key))
			}
		}
	}
	return nil
}

func (sc *scenario) boundary(at LSN) bool {
	for i := range sc.items {
		if at == sc.items[i].end {
			return true
		}
	}
	return at == walStart
}

// rank grows with every step that is not a fault and changes anything. Acks and appends count within a life of the
// connector.
func (w *world) rank() int {
	r := int(w.phase) + 8*w.item + w.msg + w.acks + w.appends + int(w.memory) + int(w.disk)
	if w.tracker != nil {
		r += int(w.tracker.Confirmed()) + 1
	}
	return r
}

// goal: all rows in the log, nothing in flight, and the slot, in memory and on disk, at the log's end.
func (w *world) goal() bool {
	return w.log == w.sc.keys && w.memory == w.sc.end && w.disk == w.sc.end && len(w.queue[0])+len(w.queue[1]) == 0
}
