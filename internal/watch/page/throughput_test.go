package page

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPace: rate and latency of the last ten seconds, and the time until a backlog that shrinks is read.
func TestPace(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	p := &Page{history: newHistory("x", true)}
	require.Equal(t, Pace{}, p.Pace("s", start))
	counts := func(fast, slow uint64) []uint64 { return []uint64{fast, fast + slow, fast + slow} }
	published, slow := uint64(0), uint64(0)
	now := start
	for second := range 31 {
		now = start.Add(time.Duration(second) * time.Second)
		published += 200
		if second == 12 {
			slow = 1000 // longer than ten seconds ago by the end
		}
		left := int64(1<<30) - int64(second)*10<<20
		p.history.add(now, &Relay{
			Published: published, Bounds: []float64{0.001, 1}, Counts: counts(published, slow),
		}, []Slot{{Name: "s", SampledAt: now, Unconfirmed: left}})
	}
	pace := p.Pace("s", now)
	require.InDelta(t, 200, *pace.EventsPerSecond, 0.1)
	require.Less(t, *pace.P99Seconds, 0.0011)
	require.InDelta(t, (1<<30-300<<20)/float64(10<<20), *pace.CatchUpSeconds, 0.5)

	p.history.add(now.Add(time.Second), nil, []Slot{{Name: "s", SampledAt: now.Add(time.Second), Unconfirmed: 1 << 20}})
	require.Nil(t, p.Pace("s", now.Add(time.Second)).CatchUpSeconds, "nothing worth the name is left")
	later := now.Add(time.Minute)
	p.history.add(later, nil, []Slot{{Name: "s", SampledAt: later, Unconfirmed: 2 << 30}})
	pace = p.Pace("s", later)
	require.Nil(t, pace.CatchUpSeconds, "it grows")
	require.Nil(t, pace.EventsPerSecond, "no sample is recent")
}
