package main

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cdc-outbox/cdc-outbox/outbox"
)

// ledger judges what arrives. Each aggregate's events are numbered from 1 in commit order, so per topic and key
// nothing but the next number may come: a lower one is a repeat, a higher one means that others are missing, or late.
type ledger struct {
	mu      sync.Mutex
	highest map[aggregate]uint64
	missing map[aggregate]map[uint64]bool
	sent    map[string]time.Time // event id -> when its COMMIT was sent
	counts  reading
	all     *hdrhistogram.Histogram // microseconds from COMMIT to the consumer
	latest  *hdrhistogram.Histogram // the same since the last call of recent
	shown   latency                 // what recent returned last
	settled bool                    // all takes no more
}

type aggregate struct{ topic, key string }

// arrival is a record as the consumer got it.
type arrival struct {
	aggregate
	id      string
	version uint64
	doomed  bool
	at      time.Time
}

// reading is what the consumer has seen so far.
type reading struct {
	consumed   uint64 // different committed events
	duplicates uint64
	disorder   uint64 // arrivals that left out an earlier event of their key
	missing    uint64 // left out and not come later either
	phantoms   uint64 // rolled back, and arrived all the same
	garbled    uint64 // records that are not the shop's events
	latency    latency
}

// latency is from the moment the COMMIT is sent until the consumer has the event.
type latency struct{ p50, p95, p99, max time.Duration }

// maxLatency is the most the histograms can tell.
const maxLatency = 10 * time.Minute

func newLedger() *ledger {
	histogram := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency.Microseconds(), 3) }
	return &ledger{
		highest: map[aggregate]uint64{}, missing: map[aggregate]map[uint64]bool{}, sent: map[string]time.Time{},
		all: histogram(), latest: histogram(),
	}
}

// committing notes that the events' COMMIT is about to be sent.
func (l *ledger) committing(events []outbox.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for i := range events {
		l.sent[events[i].ID] = now
	}
}

func (l *ledger) see(a arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.doomed {
		l.counts.phantoms++
		return
	}
	if sent, ok := l.sent[a.id]; ok {
		delete(l.sent, a.id)
		us := min(max(a.at.Sub(sent), time.Microsecond), maxLatency).Microseconds()
		if !l.settled {
			_ = l.all.RecordValue(us) // within the range
		}
		_ = l.latest.RecordValue(us)
	}
	highest := l.highest[a.aggregate]
	switch {
	case a.version > highest:
		l.advance(a.aggregate, highest, a.version)
	case l.missing[a.aggregate][a.version]:
		delete(l.missing[a.aggregate], a.version)
	default:
		l.counts.duplicates++
		return
	}
	l.counts.consumed++
}

// advance moves a key's highest number, and remembers the numbers that were left out.
func (l *ledger) advance(a aggregate, from, to uint64) {
	l.highest[a] = to
	if to == from+1 {
		return
	}
	l.counts.disorder++
	if l.missing[a] == nil {
		l.missing[a] = map[uint64]bool{}
	}
	for v := from + 1; v < to; v++ {
		l.missing[a][v] = true
	}
}

// crashing ends the measurement of the latency: what comes from now on waits for the connector's restart.
func (l *ledger) crashing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled = true
}

// garbled notes a record that cannot be read.
func (l *ledger) garbled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.garbled++
}

func (l *ledger) totals() reading {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.counts
	for _, versions := range l.missing {
		r.missing += uint64(len(versions))
	}
	r.latency = percentiles(l.all)
	return r
}

// recent returns the latencies since its last call, or the same again if nothing has arrived since.
func (l *ledger) recent() latency {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.latest.TotalCount() > 0 {
		l.shown = percentiles(l.latest)
		l.latest.Reset()
	}
	return l.shown
}

func percentiles(h *hdrhistogram.Histogram) latency {
	at := func(q float64) time.Duration { return time.Duration(h.ValueAtQuantile(q)) * time.Microsecond }
	return latency{p50: at(50), p95: at(95), p99: at(99), max: time.Duration(h.Max()) * time.Microsecond}
}
