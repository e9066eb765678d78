package page

import "time"

// Remember takes a sample of an earlier time into the history.
func (p *Page) Remember(at time.Time, r *Relay, slots []Slot) { p.history.add(at, r, slots) }
