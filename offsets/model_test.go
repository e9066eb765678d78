package offsets

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The model test drives the real Tracker through every interleaving of three transactions of up to two rows, with any
// number of connector crashes, Postgres restarts and broken streams. What a search covers is in model_search_test.go,
// what the world is in model_world_test.go.
//
// All scenarios together have 15 million states and take a minute: OFFSETS_MODEL=full. A plain run takes the scenarios
// of up to three rows and some scenarios of six rows, 2 million states. The search has one goroutine, so the race
// detector only makes it twenty times slower: with the detector, and with -short, a run takes still fewer scenarios.

// underRace is set by race_test.go.
var underRace bool

// selection bounds a run: all shapes of up to so many rows, and the named shapes of six rows.
type selection struct {
	mutant mutant
	rows   int
	also   [][]string
}

func selected() []selection {
	switch {
	case os.Getenv("OFFSETS_MODEL") == "full":
		return []selection{{mutant: faithful, rows: 6}, {mutant: faithfulRewinding, rows: 3}}
	case underRace, testing.Short():
		return []selection{
			{mutant: faithful, rows: 1, also: [][]string{{"a", "b", ""}, {"ab", "", "a"}, {"", "ab", "b"}}},
			{mutant: faithfulRewinding, rows: 1},
		}
	default:
		return []selection{
			{mutant: faithful, rows: 3, also: [][]string{{"aa", "ab", "bb"}, {"ab", "ba", "ab"}, {"aa", "aa", "aa"}}},
			{mutant: faithfulRewinding, rows: 2},
		}
	}
}

// shapes are the transactions an application may have written, given as the keys of their rows. Of two that differ in
// the keys' names only, one is enough.
func shapes(rows int) (all [][]string) {
	kinds := []string{"", "a", "b", "aa", "ab", "ba", "bb"}
	for _, x := range kinds {
		for _, y := range kinds {
			for _, z := range kinds {
				if keys := x + y + z; len(keys) <= rows && !strings.HasPrefix(keys, "b") {
					all = append(all, []string{x, y, z})
				}
			}
		}
	}
	return all
}

// TestModel: every promise holds in every state that can be reached.
func TestModel(t *testing.T) {
	for _, sel := range selected() {
		t.Run(sel.mutant.String(), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			var scenarios, states, taken int
			for _, txs := range append(shapes(sel.rows), sel.also...) {
				for _, sendEmpty := range []bool{false, true} {
					if sendEmpty && !slices.Contains(txs, "") {
						continue
					}
					sc := newScenario(sendEmpty, txs...)
					s := newSearch(sc, sel.mutant)
					if bad := s.run(); bad != nil {
						require.FailNow(t, bad.tell(sc, sel.mutant))
					}
					scenarios, states, taken = scenarios+1, states+len(s.came), taken+s.taken
				}
			}
			t.Logf("%d scenarios, %d states, %d steps, %s", scenarios, states, taken,
				time.Since(began).Round(time.Millisecond))
		})
	}
}

// TestModelRefutesMutants: the model notices each wrong rule, by the promise that rule breaks.
//
// Bug (stream): Confirming the highest acknowledgement, on receive, on the commit message, 0, or IDENTIFY_SYSTEM's
// position. Cost: loss on a crash.
func TestModelRefutesMutants(t *testing.T) {
	for m := confirmOnReceive; m < mutants; m++ {
		t.Run(m.String(), func(t *testing.T) {
			sc := newScenario(false, "a", "b", "")
			s := newSearch(sc, m)
			bad := s.run()
			require.NotNil(t, bad, "the model did not notice")
			t.Logf("%d states\n%s", len(s.came), bad.tell(sc, m))
			require.True(t, strings.HasPrefix(bad.what, mutantRules[m].breaks+": "), "it noticed something else")
		})
	}
}

// TestModelReachesGoal keeps the search honest: a world in which nothing can happen would break no promise either.
func TestModelReachesGoal(t *testing.T) {
	sc := newScenario(false, "ab", "b", "")
	w := newWorld(sc, faithful)
	for w.taken() {
	}
	require.True(t, w.goal(), w.String())
	require.Equal(t, sc.end, w.tracker.Confirmed())
}

// taken takes the first step that is not a fault and changes the state.
func (w *world) taken() bool {
	for by := range firstFault {
		if !w.enabled(by) {
			continue
		}
		next := w.clone()
		if next.do(by) == nil && next.rank() > w.rank() {
			w.assign(next)
			return true
		}
	}
	return false
}
