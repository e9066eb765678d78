package polling

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// scenario is a small world: the workers of each process, and what may happen.
type scenario struct {
	name                string
	workers             []int
	rows, rounds        int
	faults, naps, edits int
	crashes             bool
	freezes             int

	late   bool // an event may be the last record although a newer one is there
	behind bool // such a state was found
}

var scenarios = []*scenario{
	{name: "two processes", workers: []int{1, 1}, rows: 3, rounds: 3},
	{name: "two processes, connections lost", workers: []int{1, 1}, rows: 2, rounds: 2, faults: 1, late: true},
	{
		name: "two processes, one crashes", workers: []int{1, 1}, rows: 2, rounds: 2, faults: 1, crashes: true,
		late: true,
	},
	{name: "two processes, one is frozen", workers: []int{1, 1}, rows: 2, rounds: 2, freezes: 1, late: true},
	{name: "two workers of a process", workers: []int{2}, rows: 2, rounds: 2, faults: 1},
	{name: "claims are renewed", workers: []int{1, 1}, rows: 2, rounds: 2, naps: 2},
	{
		name: "claims are renewed, connections lost", workers: []int{1, 1}, rows: 2, rounds: 1, faults: 1, naps: 1,
		late: true,
	},
	{name: "an operator corrects a row", workers: []int{1, 1}, rows: 2, rounds: 2, edits: 1, late: true},
}

// mutant is a mistake that could have been made. The zero value is none.
type mutant struct {
	name, refutedIn string
	acksEarly       bool // rows are marked before Kafka has them
	noLock          bool
	readsTooEarly   bool // with the snapshot of the claim
	marksOnce       bool // a mark that failed is not tried again
	anyVersion      bool // a mark looks at the number only
	ownsNothing     bool // a lane in flight is free for the other workers of its process
	gap             bool // a renewal ends one claim before it makes the next
}

var laneMutants = []*mutant{
	{name: "rows are marked before Kafka has them", refutedIn: "two processes", acksEarly: true},
	{name: "no lock", refutedIn: "two processes", noLock: true},
	{name: "rows are read with the snapshot of the claim", refutedIn: "two processes", readsTooEarly: true},
	{name: "a mark that failed is not tried again", refutedIn: "two workers of a process", marksOnce: true},
	{name: "any version of a row is marked", refutedIn: "an operator corrects a row", anyVersion: true},
	{name: "a renewal leaves a gap", refutedIn: "claims are renewed", gap: true},
	{name: "a lane in flight is free", refutedIn: "two workers of a process", ownsNothing: true},
}

// move is what happens next.
type move struct {
	proc  int // or timePasses, or rowCorrected
	actor int // or theBroker, which takes the process's next record
	o     outcome
}

const (
	theBroker    = -1
	timePasses   = -1
	rowCorrected = -2
)

func (m move) String() string {
	switch {
	case m.proc == timePasses:
		return "time passes"
	case m.proc == rowCorrected:
		return "row 1 is corrected"
	case m.actor == theBroker:
		return fmt.Sprintf("a record of process %d is appended", m.proc)
	}
	what := [...]string{"goes on", "cut off", "answer lost", "crash", "is frozen, and its session ended"}[m.o]
	return fmt.Sprintf("process %d, worker %d: %s", m.proc, m.actor, what)
}

func newModelWorld(sc *scenario, m *mutant) *world {
	w := &world{scenario: sc, mutant: m, marked: map[int]bool{}, faults: sc.faults, naps: sc.naps, edits: sc.edits}
	w.freezes = sc.freezes
	for i := range sc.rows {
		w.rows = append(w.rows, version{i + 1, 1})
	}
	for _, n := range sc.workers {
		w.start(n)
	}
	return w
}

// moves are what may happen now.
func (w *world) moves() (all []move) {
	asleep := false
	for i, p := range w.procs {
		if len(p.pending) > 0 {
			all = append(all, move{proc: i, actor: theBroker})
		}
		for j, a := range p.actors {
			all = append(all, w.freeze(i, j)...)
			switch {
			case a.over || p.crashed:
			case a.at == "":
				asleep = true
			case a.at == "idle" && len(w.unpublished()) == 0:
			default:
				all = append(all, move{i, j, outcomeGood})
				if w.faults > 0 && a.at != "idle" && a.at != "retry" {
					all = append(all, move{i, j, outcomeCut}, move{i, j, outcomeLost})
					if w.scenario.crashes {
						all = append(all, move{i, j, outcomeCrash})
					}
				}
			}
		}
	}
	if asleep && (w.naps > 0 || len(all) == 0) {
		all = append(all, move{proc: timePasses})
	}
	if w.edits > 0 && len(all) > 0 && !w.marked[1] {
		all = append(all, move{proc: rowCorrected})
	}
	return all
}

// freeze is the move that ends the session which holds the lane, while its worker does not know.
func (w *world) freeze(proc, actor int) []move {
	p := w.procs[proc]
	if a := p.actors[actor]; w.freezes == 0 || a.over || p.crashed || w.holder == nil || w.holder.actor != a {
		return nil
	}
	return []move{{proc, actor, outcomeFreeze}}
}

// take does what the move says.
//
//waits:bubble
func (w *world) take(m move) {
	w.pass()
	switch {
	case m.proc == timePasses:
		w.naps--
		time.Sleep(renewEvery + time.Second)
	case m.proc == rowCorrected:
		w.edits--
		w.rows[0].number++
	case m.actor == theBroker:
		w.procs[m.proc].append()
		return
	default:
		p := w.procs[m.proc]
		if m.o == outcomeFreeze {
			w.freezes--
			w.faulty = true
			w.holder.ended = true
			w.holder.drop()
			return
		}
		if m.o != outcomeGood {
			w.faults--
			w.faulty = true
		}
		if m.o == outcomeCrash {
			for _, wk := range p.workers {
				wk.conn.close()
			}
			p.crash()
			return
		}
		p.actors[m.actor].resume <- m.o
	}
	synctest.Wait()
}

// check is what must be true in every state.
func (w *world) check() error {
	if w.wrong != nil {
		return w.wrong
	}
	last, published := 0, map[version]int{}
	for _, r := range w.log {
		if r.seq > last+1 {
			return fmt.Errorf("row %d is published after row %d", r.seq, last)
		}
		last = max(last, r.seq)
		published[r]++
	}
	if n := len(w.log); n > 0 && w.log[n-1].seq < last {
		w.scenario.behind = true
	}
	for _, r := range w.rows {
		if w.marked[r.seq] && published[r] == 0 {
			return fmt.Errorf("row %d is marked, and this version of it is not in Kafka", r.seq)
		}
	}
	oneProcess := len(w.scenario.workers) == 1 && !w.scenario.crashes
	for r, n := range published {
		if n > 1 && (!w.faulty || oneProcess) {
			return fmt.Errorf("row %d is published %d times", r.seq, n)
		}
	}
	return nil
}

// finish lets one more process do what is left: then every row is published and marked.
//
//waits:bubble
func (w *world) finish() error {
	for _, p := range w.procs {
		for _, a := range p.actors {
			if !a.over && a.at == "" && !p.crashed {
				return errors.New("a worker waits for ever")
			}
		}
		p.crash()
		for _, wk := range p.workers {
			wk.conn.close()
		}
	}
	p := w.start(1)
	a := p.actors[0]
	for i := 0; !a.over && (a.at != "idle" || len(w.unpublished()) > 0); i++ {
		switch {
		case i > 100:
			return errors.New("the last process does not come to an end")
		case len(p.pending) > 0:
			p.append()
		case a.at != "":
			a.resume <- outcomeGood
			synctest.Wait()
		default:
			w.pass()
			time.Sleep(time.Second)
			synctest.Wait()
		}
	}
	if n := len(w.unpublished()); n > 0 {
		return fmt.Errorf("%d rows are not published", n)
	}
	return w.check()
}

func (w *world) key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %v %v %d %d %d %d %v", w.rows, w.marked, w.log, w.faults, w.naps, w.freezes, w.edits, w.faulty)
	for _, p := range w.procs {
		fmt.Fprintf(&b, "|%v %v", p.crashed, p.pending)
		for _, a := range p.actors {
			held := w.holder != nil && w.holder.actor == a
			ended := p.workers[a.index].conn.(*laneConn).ended
			fmt.Fprintf(&b, ",%s %v %v %v %s", a.at, a.over, held, ended, a.history.String())
		}
	}
	return b.String()
}

// searchLanes visits every state that the moves lead to, by running each path from the start. It returns a violation,
// or nothing.
func searchLanes(sc *scenario, m *mutant) (what string, states int) {
	visited := map[string]bool{}
	for open := [][]move{nil}; len(open) > 0; {
		path := open[len(open)-1]
		open = open[:len(open)-1]
		others, err := follow(sc, m, visited, path)
		if err != nil {
			return err.Error(), len(visited)
		}
		open = append(open, others...)
	}
	return "", len(visited)
}

// along adds the moves that led to a violation.
func along(path []move, err error) error {
	var b strings.Builder
	for _, m := range path {
		fmt.Fprintf(&b, "\n  %v", m)
	}
	return fmt.Errorf("%w%s", err, b.String())
}

func follow(sc *scenario, m *mutant, visited map[string]bool, path []move) (others [][]move, err error) {
	w := newModelWorld(sc, m)
	defer w.end()
	for i := 0; ; i++ {
		if err := w.check(); err != nil {
			return nil, along(path, err)
		}
		if i < len(path) {
			w.take(path[i])
			continue
		}
		key := w.key()
		if visited[key] {
			return others, nil
		}
		visited[key] = true
		can := w.moves()
		if len(can) == 0 {
			if err := w.finish(); err != nil {
				return nil, along(path, err)
			}
			return others, nil
		}
		for _, c := range can[1:] {
			others = append(others, append(slices.Clone(path), c))
		}
		path = append(slices.Clone(path), can[0])
		w.take(can[0])
	}
}

// TestModelOfLanes: in every order of the statements of two workers, and of what the broker takes, a lane's rows appear
// in order, none is marked that Kafka does not have, and none is left.
func TestModelOfLanes(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				what, states := searchLanes(sc, &mutant{})
				require.Empty(t, what)
				t.Logf("%d states", states)
				require.Equal(t, sc.late, sc.behind, "docs/polling.md says when an event may come after newer ones")
			})
		})
	}
}

// TestModelOfLanesRefutesMutants: each planted mistake breaks a promise. Otherwise the model would show nothing.
func TestModelOfLanesRefutesMutants(t *testing.T) {
	for _, m := range laneMutants {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := slices.IndexFunc(scenarios, func(sc *scenario) bool { return sc.name == m.refutedIn })
				what, _ := searchLanes(scenarios[i], m)
				require.NotEmpty(t, what)
				t.Log(what)
			})
		})
	}
}
