package inbox

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// worlds are all that the models look at. The code in them is the package's own, with every decision that follows from
// an answer. Only the server is a stand-in.
func worlds(t *testing.T) []*scenario {
	with := func(s Strategy) *ledger {
		l, err := newLedger(Options{Consumer: "billing", Strategy: s})
		require.NoError(t, err)
		return l
	}
	deliver := func(s Strategy) func(a *actor) error {
		l := with(s)
		return func(a *actor) error { return a.handle(a.own(l), theEvent) }
	}
	insert, advisory := deliver(Insert), deliver(Advisory)
	both := []Event{theEvent, another}
	batch := func(events ...Event) func(a *actor) error {
		l := with(Insert)
		return func(a *actor) error { return a.handleEach(a.own(l), events) }
	}
	other := func(a *actor) error { return a.handle(a.own(with(Advisory)), another) }
	call := func(a *actor) error { return a.forward(a.world.ledger, theEvent) }
	prune := func(a *actor) error {
		_, err := a.world.ledger.pruneWith(t.Context(), a, MinKeep)
		return err
	}
	operate := func(a *actor) error { return a.operate() }
	type doing = []func(a *actor) error
	const long, late = MinKeep + time.Hour, 2*callLimit + time.Second
	all := []*scenario{
		{name: "insert, two deliveries", actors: doing{insert, insert}, faults: 4},
		{name: "insert, three deliveries", actors: doing{insert, insert, insert}, faults: 3},
		{name: "advisory, two deliveries", actors: doing{advisory, advisory}, faults: 4},
		{name: "advisory, three deliveries", actors: doing{advisory, advisory, advisory}, faults: 2},
		{name: "both strategies", actors: doing{insert, advisory}, faults: 4},
		{name: "insert and prune", actors: doing{insert, insert, prune}, naps: 1, nap: long},
		{name: "advisory and prune", actors: doing{advisory, advisory, prune}, naps: 1, nap: long},
	}
	for _, sc := range all {
		sc.final = insert
	}
	batches := []*scenario{
		{name: "two batches", actors: doing{batch(theEvent, another), batch(another, theEvent)}, faults: 2},
		{
			name:   "a batch, and a delivery of each of its events",
			actors: doing{batch(another, theEvent, another), insert, other}, faults: 1,
			names: []string{"A e f", "B e", "C f"},
		},
		{
			name: "two batches and prune", actors: doing{batch(both...), batch(both...), prune}, naps: 1, nap: long,
			names: []string{"A e f", "B e f", "prune"},
		},
	}
	for _, sc := range batches {
		sc.events = both
		sc.final = func(a *actor) error { return a.handleBatch(a.own(with(Insert)), both) }
	}
	all = append(all, batches...)
	calls := []*scenario{
		{name: "forward, two deliveries", actors: doing{call, call}, faults: 2, naps: 1, nap: late},
		{name: "forward, three deliveries", actors: doing{call, call, call}, faults: 1, nap: late},
		{name: "forward and an operator", actors: doing{call, call, operate}, faults: 1, naps: 1, nap: late},
		{name: "forward and prune", actors: doing{call, call, prune}, naps: 1, nap: long},
	}
	for _, sc := range calls {
		sc.final, sc.forwards = call, true
	}
	all = append(all, calls...)
	attempt := func(a *actor) error { return a.attempt(a.world.ledger, theEvent) }
	cleanUp := func(a *actor) error { return a.cleanUp(a.world.ledger) }
	const old = 2 * abandoned
	files := []*scenario{
		{name: "attempts, two deliveries", actors: doing{attempt, attempt}, faults: 2, nap: old},
		{
			name: "attempts and a clean up", actors: doing{attempt, attempt, cleanUp}, naps: 1, nap: old,
			names: []string{"A e", "B e", "clean up"},
		},
		{
			name: "an attempt and two clean ups", actors: doing{attempt, cleanUp, cleanUp}, faults: 1, naps: 1,
			nap: old, names: []string{"A e", "clean up", "clean up 2"},
		},
	}
	for _, sc := range files {
		sc.final, sc.attempts = attempt, true
	}
	all = append(all, files...)
	for _, sc := range all {
		sc.ledger = with(Insert)
		if sc.events == nil {
			sc.events = []Event{theEvent}
		}
		if sc.names != nil {
			continue
		}
		for i := range sc.actors {
			name := string(rune('A' + i))
			for _, e := range sc.events {
				name += " " + e.ID
			}
			sc.names = append(sc.names, name)
		}
		switch last := len(sc.names) - 1; sc.name {
		case "insert and prune", "advisory and prune", "forward and prune":
			sc.names[last] = "prune"
		case "forward and an operator":
			sc.names[last] = operator
		}
	}
	return all
}

// TestModel: in every order of the steps of a few deliveries, whatever is lost or crashes between any two of them, an
// event has its effect once, and no delivery waits for ever.
func TestModel(t *testing.T) {
	for _, sc := range worlds(t) {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if testing.Short() {
					if sc.attempts && sc.naps > 0 {
						t.Skip("its search takes seconds")
					}
					// Of all of them the search takes seconds.
					sc.faults = min(sc.faults, 4-len(sc.actors)-len(sc.events))
				}
				s := &search{sc: sc, mutant: &mutant{}}
				began := time.Now()
				require.Empty(t, s.run())
				require.Greater(t, s.runs, 20, "the world is too small to say anything")
				t.Logf("%d states, %d runs, %v of virtual time", len(s.visited), s.runs, time.Since(began))
			})
		})
	}
}

// TestModelRefutesMutants: each planted mistake breaks a promise. Otherwise the models would show nothing.
func TestModelRefutesMutants(t *testing.T) {
	all := worlds(t)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := slices.IndexFunc(all, func(sc *scenario) bool { return sc.name == m.refutedIn })
				require.GreaterOrEqual(t, i, 0, m.refutedIn)
				s := &search{sc: all[i], mutant: m}
				what := s.run()
				require.NotEmpty(t, what)
				t.Log(what)
			})
		})
	}
}
