package slotmonitor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/session"
)

// The forecast asks how fast the log grows that stays. Retained bytes are the wrong figure: restart_lsn of a healthy
// slot moves in steps (with each running-xacts record, every 15 s on a busy server), so retained bytes are a saw-tooth
// as high as 15 seconds of the whole server's log. Two parts stay:
//
//   - What the reader has not confirmed, once the confirmed position is older than the reader needs to confirm. Its age
//     is the time since the server's own position was there. Unlike bytes, it does not depend on how much is written.
//   - What restart_lsn leaves behind a confirmed position that moves on, once an open transaction holds it.
const (
	shortWindow = time.Minute      // of the rates that a forecast is made with
	steady      = 20 * time.Second // the shortest window in which checkpoints and bursts average out
	prompt      = 10 * time.Second // the age of a confirmed position from which a prompt reader is behind
	unknown     = 30 * time.Second // the same for a reader that has not been seen to confirm
	// without a known holder, restart_lsn is held after so many seconds' worth of its steps
	heldRestart = 90 * time.Second
	tooth       = 15 * time.Second // a step of restart_lsn on a busy server
	aboutZero   = 64 << 10         // unconfirmed bytes that an idle server's own records amount to
	peaks       = 8                // ages that are remembered to learn how promptly a reader confirms
)

// point is where the server and a slot were at one sample.
type point struct {
	at                          time.Time
	current, confirmed, restart uint64
}

func (p point) unconfirmed() float64 { return float64(distance(p.current, p.confirmed)) }

// lag is what the slot retains beyond the part that its reader has not confirmed.
func (p point) lag() float64 {
	return float64(distance(p.current, p.restart) - distance(p.current, p.confirmed))
}

// trend follows one slot from sample to sample.
type trend struct {
	least   time.Duration // samples must span so much before anything is said
	points  []point
	restart time.Time     // since when restart_lsn has not moved
	began   time.Time     // when the reader fell behind; zero: it has not
	age     time.Duration // of the confirmed position at the last sample
	peaks   []time.Duration
}

// forecast is what a trend says after a sample.
type forecast struct {
	growth *float64 // bytes per second that stay; 0: the slot keeps up; nil: not known yet
	stays  int64    // bytes that the next step of restart_lsn does not free
	room   float64  // to be added to the room that the server reports: restart_lsn's part of its present step
	tooth  int64    // of the retained bytes: what restart_lsn's next step frees
}

// add takes a sample. watched says what is known of the slot's reader, and held whether an open transaction is old
// enough to hold restart_lsn.
func (t *trend) add(p point, watched reader, held bool) forecast {
	t.appendPoint(p)
	span := p.at.Sub(t.points[0].at)
	before := t.age
	t.age = t.lateness(p)
	t.learn(before, p)
	if span < t.least || len(t.points) < 2 {
		return forecast{tooth: t.tooth(p, held)}
	}
	late := p.unconfirmed() >= aboutZero && t.age >= t.patience(watched)
	switch {
	case !late:
		t.began = time.Time{}
	case t.began.IsZero():
		t.began = p.at.Add(-t.age)
	}
	rate := t.rate(shortWindow)
	stuck := t.stuck(p, rate, held)
	f := forecast{growth: new(float64)}
	switch {
	case stuck:
		*f.growth, f.stays = rate, int64(p.lag()+p.unconfirmed())
	case late:
		*f.growth, f.stays = t.falling(p), int64(p.unconfirmed())
		if t.moves(p.at.Add(-prompt)) {
			f.room = p.lag() - t.meanLag()
		}
	default:
		f.tooth = t.tooth(p, held)
	}
	return f
}

// tooth is what the next step of restart_lsn frees, as far as the last steps show. Before they have been seen, it is
// all of the lag, unless a transaction holds it.
func (t *trend) tooth(p point, held bool) (high int64) {
	if !held && p.at.Sub(t.points[0].at) < 3*tooth {
		return int64(max(0, p.lag()))
	}
	for _, q := range t.points {
		if p.at.Sub(q.at) <= 3*tooth {
			high = max(high, distance(p.current, p.restart)-distance(q.current, q.restart))
		}
	}
	return high
}

// appendPoint appends the sample and drops the samples before the window, one less than all of them: the age of the
// confirmed position is found among them.
func (t *trend) appendPoint(p point) {
	if n := len(t.points); n > 0 {
		last := t.points[n-1]
		if p.at.Before(last.at) || p.current < last.current || p.confirmed < last.confirmed || p.restart == 0 {
			*t = trend{least: t.least} // a clock set back, another server, or another slot of that name
		} else if p.restart != last.restart {
			t.restart = p.at
		}
	}
	if t.restart.IsZero() {
		t.restart = p.at
	}
	t.points = append(t.points, p)
	drop := 0
	for drop < len(t.points)-2 && p.at.Sub(t.points[drop+1].at) >= 2*shortWindow {
		drop++
	}
	t.points = append(t.points[:0], t.points[drop:]...)
}

// lateness is how long ago the server's own position was the confirmed one, 0 where everything is confirmed.
func (t *trend) lateness(p point) time.Duration {
	if p.confirmed >= p.current {
		return 0
	}
	for i := len(t.points) - 1; i > 0; i-- {
		a, b := t.points[i-1], t.points[i]
		if a.current <= p.confirmed {
			part := float64(p.confirmed-a.current) / float64(b.current-a.current)
			return p.at.Sub(a.at) - time.Duration(part*float64(b.at.Sub(a.at)))
		}
	}
	first := t.points[0]
	span, written := p.at.Sub(first.at), float64(p.current-first.current)
	if written <= 0 {
		return span // nothing is written, so nothing shows how old it is
	}
	return span + time.Duration(min(1e6, float64(distance(first.current, p.confirmed))/written*span.Seconds())*
		float64(time.Second))
}

// learn remembers how old the confirmed position had become when the reader confirmed everything again. The recovery
// from an outage is one of several, and the median does not see it.
func (t *trend) learn(before time.Duration, p point) {
	n := len(t.points)
	if n < 2 || p.confirmed == t.points[n-2].confirmed || p.current-t.points[n-2].current < aboutZero ||
		t.age > max(prompt, before/2) { // nothing to confirm, or it catches up
		return
	}
	last := t.points[n-2]
	if last.unconfirmed() < aboutZero {
		before = 0
	}
	if t.peaks = append(t.peaks, before+p.at.Sub(last.at)); len(t.peaks) > peaks {
		t.peaks = slices.Delete(t.peaks, 0, 1)
	}
}

// reader says, as far as is known, who reads the slot.
type reader struct{ absent, ours bool }

func (s *Slot) watched() reader {
	return reader{
		absent: !s.Active, ours: s.Reader != nil && strings.HasPrefix(s.Reader.Application, session.Application("")),
	}
}

// patience is the age of the confirmed position from which the reader is behind. Some readers confirm once a minute.
func (t *trend) patience(r reader) time.Duration {
	switch {
	case r.absent || r.ours:
		return prompt
	case len(t.peaks) < 3:
		return unknown
	}
	sorted := slices.Clone(t.peaks)
	slices.SortFunc(sorted, cmp.Compare)
	return max(prompt, 2*sorted[len(sorted)/2])
}

// since returns the earliest point at or after the time, with the last before it where that is closer.
func (t *trend) since(at time.Time) point {
	i := 0
	for i < len(t.points)-2 && t.points[i].at.Before(at) {
		i++
	}
	return t.points[i]
}

// rate is how fast the server has written its log over the window.
func (t *trend) rate(window time.Duration) float64 {
	last := t.points[len(t.points)-1]
	return slope(t.since(last.at.Add(-window)), last, func(p point) float64 { return float64(p.current) })
}

func slope(a, b point, value func(point) float64) float64 {
	seconds := b.at.Sub(a.at).Seconds()
	if seconds <= 0 {
		return 0
	}
	return (value(b) - value(a)) / seconds
}

// stuck reports whether restart_lsn stays where it is although the confirmed position moves on.
func (t *trend) stuck(p point, rate float64, held bool) bool {
	still := p.at.Sub(t.restart)
	enough := heldRestart
	if held {
		enough = 2 * tooth
	}
	return still >= enough && p.lag() >= max(aboutZero, rate*(2*tooth).Seconds()/2) && rate > 0
}

// falling is how fast a reader that is behind falls further behind; negative while it catches up. The rate of the log
// is that of a longer time, also from before it fell behind, unless that was another time: a batch has begun or ended.
func (t *trend) falling(p point) float64 {
	n := len(t.points)
	if n >= 3 && t.points[n-1].unconfirmed() < t.points[n-2].unconfirmed() &&
		t.points[n-2].unconfirmed() < t.points[n-3].unconfirmed() {
		return slope(t.points[n-3], p, point.unconfirmed)
	}
	run := p.at.Sub(t.began)
	from := t.since(p.at.Add(-min(run, shortWindow)))
	written := slope(from, p, func(p point) float64 { return float64(p.current) })
	if run < steady {
		if longer := t.rate(steady); written < longer*1.25 && written > longer/1.25 {
			written = longer
		}
	}
	if t.since(p.at.Add(-prompt)).unconfirmed() >= p.unconfirmed() {
		return min(0, slope(from, p, point.unconfirmed))
	}
	return written - slope(from, p, func(p point) float64 { return float64(p.confirmed) })
}

func (t *trend) moves(since time.Time) bool {
	return t.since(since).confirmed != t.points[len(t.points)-1].confirmed
}

func (t *trend) meanLag() float64 {
	var sum float64
	for _, p := range t.points {
		sum += p.lag()
	}
	return sum / float64(len(t.points))
}
