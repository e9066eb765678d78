package simulation

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func number(name string, otherwise uint64) uint64 {
	n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

func simulate(t *testing.T, p *Plan, tracing bool) (res *Result) {
	synctest.Test(t, func(*testing.T) { res = Run(p, tracing) })
	return res
}

// TestSeeds runs seeds: SIMULATION_SEEDS of them, from SIMULATION_FIRST on.
func TestSeeds(t *testing.T) {
	first, n := number("SIMULATION_FIRST", 1), number("SIMULATION_SEEDS", 200)
	began := time.Now()
	var events int
	var virtual time.Duration
	failed := 0
	for seed := first; seed < first+n; seed++ {
		p := NewPlan(seed, Now)
		res := simulate(t, p, false)
		events += res.Events
		virtual += res.Virtual
		if res.Failed() {
			failed++
			t.Errorf("seed %d\n%s\n%s", seed, res, p)
			if failed >= 5 {
				break
			}
		}
	}
	took := time.Since(began)
	t.Logf("%d seeds, %d events, %s of virtual time in %s: %.0f seeds/s", n, events, virtual.Round(time.Second),
		took.Round(time.Millisecond), float64(n)/took.Seconds())
}

// TestSeed shows one seed: SIMULATION_SEED.
func TestSeed(t *testing.T) {
	seed := number("SIMULATION_SEED", 1)
	p := NewPlan(seed, Now)
	res := simulate(t, p, true)
	for _, line := range res.Trace {
		t.Log(line)
	}
	t.Logf("%s%s", p, res)
	if res.Failed() {
		t.Fail()
	}
}
