package page

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxSlots is the number of slots with a history, 98 KB each. The page shows further ones without a chart.
const maxSlots = 64

// Relay is one sample of the relay.
type Relay struct {
	Published uint64    // events acknowledged since the process started
	Bounds    []float64 // of the buckets of commit_to_ack_seconds
	Counts    []uint64  // cumulated, with one more than there are bounds, for all
	Sum       float64   // of the observed seconds
	Oldest    float64   // age of the oldest unconfirmed transaction in seconds
	Records   int       // in flight
	Bytes     int64
}

// Slot is one sample of a slot.
type Slot struct {
	Name                  string
	SampledAt             time.Time // by the server; one that was seen before is not a new sample
	Retained, Unconfirmed int64
}

// relayPoint and slotPoint are the figures that are kept of a second, and of a minute or an hour.
type relayPoint struct {
	rate, p50, p99, oldest float32 // NaN: not known
	records                int32
	bytes                  int64
}

type slotPoint struct{ retained, unconfirmed int64 }

var relayColumns = []column[relayPoint]{
	{"rate", func(p *relayPoint) float64 { return float64(p.rate) }},
	{"p50", func(p *relayPoint) float64 { return float64(p.p50) }},
	{"p99", func(p *relayPoint) float64 { return float64(p.p99) }},
	{"oldest", func(p *relayPoint) float64 { return float64(p.oldest) }},
	{"records", func(p *relayPoint) float64 { return float64(p.records) }},
	{"bytes", func(p *relayPoint) float64 { return float64(p.bytes) }},
}

var slotColumns = []column[slotPoint]{
	{"retained", func(p *slotPoint) float64 { return float64(p.retained) }},
	{"unconfirmed", func(p *slotPoint) float64 { return float64(p.unconfirmed) }},
}

// history is the last fifteen minutes, day and month of this process. The samples bring the time.
type history struct {
	id string // of this process: a page that stays open over a restart must not ask for samples after the old ones

	mu    sync.Mutex
	tick  uint64             // looks so far
	relay *tiers[relayPoint] // nil: this process relays nothing
	last  struct {
		at        time.Time
		published uint64
		latency   buckets
	}
	slots map[string]*slotRing
}

type slotRing struct {
	tiers[slotPoint]
	sampledAt time.Time
}

func newHistory(id string, withRelay bool) *history {
	h := &history{id: id, slots: map[string]*slotRing{}}
	if withRelay {
		h.relay = new(newTiers[relayPoint]())
	}
	return h
}

// add takes one sample; relay is nil if there is none.
func (h *history) add(now time.Time, relay *Relay, slots []Slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tick++
	if relay != nil {
		h.addRelay(now, relay)
	}
	gone := maps.Clone(h.slots)
	for _, s := range slots {
		delete(gone, s.Name)
		r := h.slots[s.Name]
		if r == nil && len(h.slots) < maxSlots {
			r = &slotRing{tiers: newTiers[slotPoint]()}
			h.slots[s.Name] = r
		}
		if r != nil && !s.SampledAt.Equal(r.sampledAt) {
			r.sampledAt = s.SampledAt
			r.add(h.tick, now, slotPoint{s.Retained, s.Unconfirmed})
		}
	}
	for name := range gone {
		delete(h.slots, name)
	}
}

func (h *history) addRelay(now time.Time, r *Relay) {
	latency, last := buckets{r.Bounds, r.Counts, r.Sum}, &h.last
	p := relayPoint{
		rate: float32(math.NaN()), p50: float32(math.NaN()), p99: float32(math.NaN()),
		oldest: float32(r.Oldest), records: int32(r.Records), bytes: r.Bytes,
	}
	if !last.at.IsZero() {
		if seconds := now.Sub(last.at).Seconds(); seconds > 0 && r.Published >= last.published {
			p.rate = float32(float64(r.Published-last.published) / seconds)
		}
		d := latency.since(last.latency)
		p.p50, p.p99 = float32(d.quantile(0.5)), float32(d.quantile(0.99))
	}
	last.at, last.published, last.latency = now, r.Published, latency
	h.relay.add(h.tick, now, p)
}

// since parses appendJSON's next. An unknown one means the beginning.
func (h *history) since(next string) uint64 {
	id, tick, _ := strings.Cut(next, "-")
	n, err := strconv.ParseUint(tick, 10, 64)
	if err != nil || id != h.id {
		return 0
	}
	return n
}

// appendJSON writes the samples of one span after next, as the members of an object.
func (h *history) appendJSON(b []byte, span, next string) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	tick := h.since(next)
	b = append(b, `"next":"`...)
	b = append(b, h.id...)
	b = append(b, '-')
	b = strconv.AppendUint(b, h.tick, 10)
	b = append(b, '"')
	if h.relay != nil {
		b = h.relay.appendJSON(append(b, `,"relay":`...), span, tick, relayColumns)
	}
	b = append(b, `,"slots":{`...)
	for i, name := range slices.Sorted(maps.Keys(h.slots)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, name)
		b = append(b, ':')
		b = h.slots[name].appendJSON(b, span, tick, slotColumns)
	}
	return append(b, '}')
}
