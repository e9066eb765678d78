package simulation

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-outbox/cdc-outbox/test/simulation/network"
)

func number(name string, otherwise uint64) uint64 {
	n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// simulate runs a plan. The collector waits meanwhile: it moves goroutines about in the run queue.
func simulate(t *testing.T, p *Plan, tracing bool) (res *Result) {
	t.Helper()
	warm.Do(func() {
		for seed := range uint64(8) { // what is done once in a process happens in no run that counts
			run(t, NewPlan(seed, switches()), false)
		}
	})
	return run(t, p, tracing)
}

var warm sync.Once

func run(t *testing.T, p *Plan, tracing bool) (res *Result) {
	replaySeed(network.Mix(p.Seed))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	synctest.Test(t, func(*testing.T) { res = Run(p, tracing) })
	return res
}

// switches are what the relay is held to, and more by SIMULATION_WITH.
func switches() Switches { return Now.With(os.Getenv("SIMULATION_WITH")) }

// underRace is set by race_test.go. Most seeds run without the detector, by make simulate.
var underRace bool

// TestSeeds runs seeds: SIMULATION_SEEDS of them, from SIMULATION_FIRST on.
func TestSeeds(t *testing.T) { runSeeds(t, newPlan, 50, 30) }

// TestPollingSeeds does so for source: polling.
func TestPollingSeeds(t *testing.T) { runSeeds(t, NewPollingPlan, 20, 10) }

func newPlan(seed uint64) *Plan { return NewPlan(seed, switches()) }

// planOf is the plan of SIMULATION_SOURCE.
func planOf(seed uint64) *Plan {
	if os.Getenv("SIMULATION_SOURCE") == "polling" {
		return NewPollingPlan(seed)
	}
	return newPlan(seed)
}

func runSeeds(t *testing.T, plan func(seed uint64) *Plan, withRace, short uint64) {
	t.Helper()
	first, n := number("SIMULATION_FIRST", 1), number("SIMULATION_SEEDS", 200)
	if underRace {
		n = min(n, withRace)
	}
	if testing.Short() {
		n = min(n, short)
	}
	began := time.Now()
	var events int
	var virtual time.Duration
	failed := 0
	for seed := first; seed < first+n; seed++ {
		p := plan(seed)
		res := simulate(t, p, false)
		events += res.Events
		virtual += res.Virtual
		if res.Failed() {
			failed++
			t.Errorf("seed %d\n%s\n%s%s", seed, res, p, shortened(t, p, res))
			if failed >= int(number("SIMULATION_FAILURES", 5)) {
				break
			}
		}
	}
	took := time.Since(began)
	t.Logf("%d seeds, %d events, %s of virtual time in %s: %.0f seeds/s", n, events, virtual.Round(time.Second),
		took.Round(time.Millisecond), float64(n)/took.Seconds())
}

// TestSeed shows one seed: SIMULATION_SEED, or the steps of it that SIMULATION_STEPS names.
func TestSeed(t *testing.T) {
	p := chosen(t, number("SIMULATION_SEED", 1))
	res := simulate(t, p, true)
	for _, line := range res.Trace {
		t.Log(line)
	}
	t.Logf("%s%s", p, res)
	if res.Failed() {
		t.Fail()
	}
}

// TestReplay: with the overlay, a seed gives the same trace again, byte by byte.
func TestReplay(t *testing.T) {
	if !replays {
		t.Skip("needs the overlay: make simulate")
	}
	replays, other := number("SIMULATION_REPLAYS", 60), uint64(0)
	for seed := uint64(1); seed <= replays; seed++ {
		first := simulate(t, NewPlan(seed, switches()), false)
		if os.Getenv("SIMULATION_DIGESTS") != "" {
			t.Logf("seed %d: %016x", seed, first.Digest)
		}
		if again := simulate(t, NewPlan(seed, switches()), false); again.Digest != first.Digest {
			t.Logf("seed %d: %016x, and again %016x", seed, first.Digest, again.Digest)
			other++
		}
	}
	// A busy machine can still take a processor away in the middle of a run, about once in a hundred.
	if other > replays/20 {
		t.Errorf("%d of %d seeds did not repeat", other, replays)
	}
}

// TestMain gives the runs one processor: with two, which of two goroutines is first is the machine's choice.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	runtime.MemProfileRate = 0
	os.Exit(m.Run())
}
