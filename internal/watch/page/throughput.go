package page

import (
	"math"
	"time"
)

// Pace is how fast the relay is, as of the last seconds.
type Pace struct {
	EventsPerSecond *float64 `json:"events_per_second"` // acknowledged; null: not known yet
	// from the commit to the acknowledgement: the worst second of the last ten; null: nothing was acknowledged
	P99Seconds *float64 `json:"p99_seconds"`
	// until the slot has no backlog, at the pace of the last minute; null: there is none, or it does not shrink
	CatchUpSeconds *float64 `json:"catch_up_seconds"`
}

const (
	paceFor    = 10 * time.Second
	catchUpFor = time.Minute
	// backlog is more log than a reader that keeps up leaves unconfirmed.
	backlog = 16 << 20
)

// Pace returns the pace of the relay and of one slot.
func (p *Page) Pace(slot string, now time.Time) Pace {
	h := p.history
	h.mu.Lock()
	defer h.mu.Unlock()
	var pace Pace
	if h.relay != nil {
		pace.EventsPerSecond, pace.P99Seconds = relayPace(&h.relay.seconds, now)
	}
	if r := h.slots[slot]; r != nil {
		pace.CatchUpSeconds = catchUp(&r.seconds, now)
	}
	return pace
}

func relayPace(r *ring[relayPoint], now time.Time) (rate, p99 *float64) {
	sum, n, worst := 0.0, 0, math.NaN()
	for i := r.n; i > r.n-r.kept(); i-- {
		s := r.at(i - 1)
		if now.Sub(time.UnixMilli(s.at)) > paceFor {
			break
		}
		if v := float64(s.of.rate); !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
		if v := float64(s.of.p99); !math.IsNaN(v) && !(v <= worst) {
			worst = v
		}
	}
	if n > 0 {
		rate = new(sum / float64(n))
	}
	if !math.IsNaN(worst) {
		p99 = &worst
	}
	return rate, p99
}

// catchUp compares the backlog with that of a minute ago, or of as long ago as is known.
func catchUp(r *ring[slotPoint], now time.Time) *float64 {
	if r.n == 0 {
		return nil
	}
	last := r.at(r.n - 1)
	before := last
	for i := r.n; i > r.n-r.kept() && now.Sub(time.UnixMilli(r.at(i-1).at)) <= catchUpFor; i-- {
		before = r.at(i - 1)
	}
	seconds := float64(last.at-before.at) / 1000
	shrunk := float64(before.of.unconfirmed - last.of.unconfirmed)
	if last.of.unconfirmed < backlog || seconds < 5 || shrunk <= 0 {
		return nil
	}
	return new(float64(last.of.unconfirmed) / (shrunk / seconds))
}
