package page

import (
	"math"
	"time"
)

// The history has three tiers: the last fifteen minutes in seconds, a day in minutes, a month in hours.
const (
	keptSeconds = 15 * 60
	keptMinutes = 24 * 60
	keptHours   = 30 * 24
)

// span is how much of the history a page asks for, by the name in its query.
type span struct {
	step  time.Duration // between two samples
	keeps time.Duration
}

var spans = map[string]span{
	"":      {Every, keptSeconds * Every},
	"day":   {time.Minute, keptMinutes * time.Minute},
	"month": {time.Hour, keptHours * time.Hour},
}

// point is the figures of one sample.
type point[T any] interface {
	// with adds the figures of a second to a longer time, and counts in seen which are known.
	with(second T, seen *means) T
}

// means counts the known samples of the figures that are averaged.
type means struct{ rate, p50 uint32 }

// tier keeps one sample for each minute or hour. A time in which nothing was seen has no sample, which is a gap.
type tier[T point[T]] struct {
	ring[T]
	step time.Duration
	open struct { // the present minute or hour; no time: none
		at   time.Time
		tick uint64
		of   T
		seen means
	}
}

// add takes a second into the open sample, which is closed once a second comes from another minute or hour.
func (t *tier[T]) add(tick uint64, now time.Time, second T) {
	at := now.Truncate(t.step)
	o := &t.open
	if !o.at.IsZero() && !o.at.Equal(at) {
		t.ring.add(tick, o.at, o.of) // its last figures are new to a page that has asked before
		o.at = time.Time{}
	}
	if o.at.IsZero() {
		o.at, o.of, o.seen = at, second, means{}
		o.of = second.with(second, &o.seen)
	} else {
		o.of = o.of.with(second, &o.seen)
	}
	o.tick = tick
}

// last returns the open sample if it has figures that came after the tick.
func (t *tier[T]) last(tick uint64) *sample[T] {
	if t.open.at.IsZero() || t.open.tick <= tick {
		return nil
	}
	return &sample[T]{t.open.tick, t.open.at.UnixMilli(), t.open.of}
}

// tiers is the history of one relay or one slot: 3,060 samples, in arrays that are allocated once. They take 147 KB for
// the relay and 98 KB for a slot.
type tiers[T point[T]] struct {
	seconds        ring[T]
	minutes, hours tier[T]
}

func newTiers[T point[T]]() tiers[T] {
	return tiers[T]{
		seconds: newRing[T](keptSeconds),
		minutes: tier[T]{ring: newRing[T](keptMinutes), step: time.Minute},
		hours:   tier[T]{ring: newRing[T](keptHours), step: time.Hour},
	}
}

func (t *tiers[T]) add(tick uint64, now time.Time, second T) {
	t.seconds.add(tick, now, second)
	t.minutes.add(tick, now, second)
	t.hours.add(tick, now, second)
}

// appendJSON writes the samples of one tier after the tick.
func (t *tiers[T]) appendJSON(b []byte, of string, tick uint64, columns []column[T]) []byte {
	r, last := &t.seconds, (*sample[T])(nil)
	switch of {
	case "day":
		r, last = &t.minutes.ring, t.minutes.last(tick)
	case "month":
		r, last = &t.hours.ring, t.hours.last(tick)
	}
	return r.appendJSON(b, r.after(tick), last, columns)
}

// with averages the rate and the median, and keeps the worst of the others.
func (p relayPoint) with(second relayPoint, seen *means) relayPoint {
	return relayPoint{
		rate: mean(p.rate, second.rate, &seen.rate), p50: mean(p.p50, second.p50, &seen.p50),
		p99: worst(p.p99, second.p99), oldest: worst(p.oldest, second.oldest),
		records: max(p.records, second.records), bytes: max(p.bytes, second.bytes),
	}
}

// with keeps the most that the slot held back.
func (p slotPoint) with(second slotPoint, _ *means) slotPoint {
	return slotPoint{max(p.retained, second.retained), max(p.unconfirmed, second.unconfirmed)}
}

// mean takes one more value into the mean of n known values. NaN is not known.
func mean(of, next float32, n *uint32) float32 {
	if math.IsNaN(float64(next)) {
		return of
	}
	*n++
	if *n == 1 {
		return next
	}
	return of + (next-of)/float32(*n)
}

func worst(a, b float32) float32 {
	if math.IsNaN(float64(a)) || b > a {
		return b
	}
	return a
}
