package page

import (
	"encoding/json"
	"math"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// begin is the beginning of an hour.
var begin = time.UnixMilli(1_700_002_800_000)

func after(d time.Duration) time.Time { return begin.Add(d) }

// readSpan is what the page reads of one tier.
func readSpan(t *testing.T, h *history, span, since string) answer {
	t.Helper()
	var a answer
	body := append(h.appendJSON([]byte{'{'}, span, since), '}')
	require.NoError(t, json.Unmarshal(body, &a), "%s", body)
	return a
}

func TestTiersKeepTheMeanAndTheWorst(t *testing.T) {
	nan := float32(math.NaN())
	at := func(d time.Duration, p relayPoint) sample[relayPoint] {
		return sample[relayPoint]{at: after(d).UnixMilli(), of: p}
	}
	for name, c := range map[string]struct {
		seconds []sample[relayPoint]
		want    []sample[relayPoint] // of the minutes, the open one last
	}{
		"nothing": {},
		"one second": {
			[]sample[relayPoint]{at(3*time.Second, relayPoint{rate: 5, p50: nan, p99: nan, records: 2})},
			[]sample[relayPoint]{at(0, relayPoint{rate: 5, p50: nan, p99: nan, records: 2})},
		},
		"a mean, and the worst": {
			[]sample[relayPoint]{
				at(0, relayPoint{rate: nan, p50: nan, p99: nan, oldest: 1}),
				at(1*time.Second, relayPoint{rate: 10, p50: .2, p99: .3, oldest: 4, records: 9, bytes: 7}),
				at(59*time.Second, relayPoint{rate: 40, p50: nan, p99: nan, oldest: 2, records: 3, bytes: 8}),
				at(60*time.Second, relayPoint{rate: 1, p50: 1, p99: 1}),
			},
			[]sample[relayPoint]{
				at(0, relayPoint{rate: 25, p50: .2, p99: .3, oldest: 4, records: 9, bytes: 8}),
				at(time.Minute, relayPoint{rate: 1, p50: 1, p99: 1}),
			},
		},
		"the process was away": {
			[]sample[relayPoint]{at(time.Second, relayPoint{rate: 1}), at(time.Hour, relayPoint{rate: 2})},
			[]sample[relayPoint]{at(0, relayPoint{rate: 1}), at(time.Hour, relayPoint{rate: 2})},
		},
		"the clock was set back": {
			[]sample[relayPoint]{at(time.Hour, relayPoint{rate: 1}), at(time.Second, relayPoint{rate: 2})},
			[]sample[relayPoint]{at(time.Hour, relayPoint{rate: 1}), at(0, relayPoint{rate: 2})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tiers := newTiers[relayPoint]()
			for i, s := range c.seconds {
				tiers.add(uint64(i+1), time.UnixMilli(s.at), s.of)
			}
			var got []sample[relayPoint]
			for i := range tiers.minutes.n {
				got = append(got, *tiers.minutes.at(i))
			}
			if open := tiers.minutes.last(0); open != nil {
				got = append(got, *open)
			}
			require.Len(t, got, len(c.want))
			for i, want := range c.want {
				require.Equal(t, want.at, got[i].at)
				for _, figure := range relayColumns {
					w, g := figure.value(&want.of), figure.value(&got[i].of)
					require.True(t, w == g || math.IsNaN(w) && math.IsNaN(g), "%s: %v, not %v", figure.name, g, w)
				}
			}
		})
	}
}

// A month and a day of seconds, as the process samples them.
func TestAMonthIsKeptInHoursAndADayInMinutes(t *testing.T) {
	tiers := newTiers[slotPoint]()
	const seconds = 31 * 24 * 3600
	for i := range seconds {
		tiers.add(uint64(i+1), after(time.Duration(i)*time.Second), slotPoint{retained: int64(i)})
	}
	for _, c := range []struct {
		of   *ring[slotPoint]
		kept int
		step int64 // seconds
	}{
		{&tiers.seconds, keptSeconds, 1}, {&tiers.minutes.ring, keptMinutes, 60}, {&tiers.hours.ring, keptHours, 3600},
	} {
		require.Equal(t, uint64(c.kept), c.of.kept())
		closed := int64(c.of.n) // ever
		first, last := c.of.at(c.of.n-c.of.kept()), c.of.at(c.of.n-1)
		require.Equal(t, begin.UnixMilli()+(closed-1)*c.step*1000, last.at)
		require.Equal(t, int64(c.kept-1)*c.step*1000, last.at-first.at)
		require.Equal(t, closed*c.step-1, last.of.retained, "the most of its time")
	}
	open := tiers.hours.last(0)
	require.Equal(t, int64(seconds-1), open.of.retained)
}

// A page that asks again gets the closed minute again, with its last figures, and the open one.
func TestAPageGetsWhatIsNewOfATier(t *testing.T) {
	h := newHistory("p", true)
	add := func(second int) {
		h.add(after(time.Duration(second)*time.Second), look(uint64(second), 0, 0, 0),
			[]Slot{{Name: "s", SampledAt: after(time.Duration(second) * time.Second), Retained: int64(second)}})
	}
	for second := range 70 {
		add(second)
	}
	a := readSpan(t, h, "day", "")
	minute := func(n int64) int64 { return begin.UnixMilli() + n*60_000 }
	require.Equal(t, []int64{minute(0), minute(1)}, a.Relay.At)
	require.Equal(t, []int64{59, 69}, a.Slots["s"].Retained)
	require.Empty(t, readSpan(t, h, "day", a.Next).Relay.At)
	for second := 70; second < 130; second++ {
		add(second)
	}
	b := readSpan(t, h, "day", a.Next)
	require.Equal(t, []int64{minute(1), minute(2)}, b.Relay.At)
	require.Equal(t, []int64{119, 129}, b.Slots["s"].Retained)
	require.Equal(t, []int64{begin.UnixMilli()}, readSpan(t, h, "month", "").Relay.At)
}

func TestASpanIsOneOfThree(t *testing.T) {
	p := New(Config{Slots: func() []Slot { return nil }, SlotInterval: 5 * time.Second})
	for span, want := range map[string]struct{ every, keeps, slots int64 }{
		"": {1, 900, 5}, "day": {60, 86_400, 60}, "month": {3600, 30 * 86_400, 3600},
	} {
		var a struct {
			Every int64 `json:"every_ms"`
			Keeps int64 `json:"keeps_ms"`
			Slots int64 `json:"slots_every_ms"`
		}
		w := get(t, p, "GET", "/history?span="+span)
		require.Equal(t, 200, w.Code)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a))
		got := []int64{a.Every / 1000, a.Keeps / 1000, a.Slots / 1000}
		require.Equal(t, []int64{want.every, want.keeps, want.slots}, got)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest("GET", "/history?span=year", nil))
	require.Equal(t, 400, w.Code)
}
