package inbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// scenario is a small world: who is there, and what may happen.
type scenario struct {
	name         string
	actors       []func(a *actor) error
	names        []string
	events       []Event
	ledger       *ledger
	final        func(a *actor) error // a delivery that nothing disturbs, after all others
	forwards     bool
	attempts     bool
	faults, naps int
	nap          time.Duration
}

// choice is one step of a run: who, and what happens to it. who is -1 for time that passes.
type choice struct {
	who int
	o   outcome
}

// search visits every state that the choices lead to. The real code cannot be copied, so each run begins from the start
// and follows its choices to a state that was not visited. A state is what the server holds, and what each actor has
// been answered, from which its code does the same again.
type search struct {
	sc      *scenario
	mutant  *mutant
	visited map[string]bool
	runs    int
}

// run returns a violation with the choices that lead to it, or nothing.
func (s *search) run() (what string) {
	s.visited = map[string]bool{}
	for open := [][]choice{nil}; len(open) > 0; {
		path := open[len(open)-1]
		open = open[:len(open)-1]
		more, err := s.follow(path)
		if err != nil {
			return err.Error()
		}
		open = append(open, more...)
	}
	return ""
}

// follow runs the choices, and from there on the first choice of each state, until all actors are done or the state was
// visited. It returns the paths to the other choices.
func (s *search) follow(path []choice) (others [][]choice, err error) {
	s.runs++
	w := s.begin()
	defer w.end()
	for i := 0; ; i++ {
		if err := w.check(); err != nil {
			return nil, s.tell(path, err)
		}
		var next choice
		if i < len(path) {
			next = path[i]
		} else {
			key := w.key()
			if s.visited[key] {
				return others, nil
			}
			s.visited[key] = true
			can := w.choices()
			if len(can) == 0 {
				return others, s.tell(path, w.finish())
			}
			next = can[0]
			for _, c := range can[1:] {
				others = append(others, append(slices.Clone(path), c))
			}
			path = append(slices.Clone(path), next)
		}
		w.take(next)
	}
}

func (s *search) begin() *world {
	w := &world{
		server: newServer(time.Now), turn: make(chan struct{}), mutant: s.mutant, scenario: s.sc, ledger: s.sc.ledger,
		began: time.Now(), faults: s.sc.faults, naps: s.sc.naps,
	}
	if s.mutant.ledger != nil {
		l := *w.ledger
		s.mutant.ledger(&l)
		w.ledger = &l
	}
	w.server.impatient = s.mutant.impatient
	for _, e := range s.sc.events {
		w.server.event(e.ID)
	}
	for i, do := range s.sc.actors {
		w.start(s.sc.names[i], do)
	}
	return w
}

// take makes a choice.
//
//waits:bubble
func (w *world) take(c choice) {
	if c.who < 0 {
		w.naps--
		time.Sleep(w.scenario.nap)
		return
	}
	if c.o != outcomeGood {
		w.faults--
		w.faulty = true
	}
	w.let(w.actors[c.who], c.o)
}

// choices are what may happen now.
func (w *world) choices() (all []choice) {
	for i, a := range w.actors {
		if !a.runnable() {
			continue
		}
		if a.name == operator && a.at == stepStart && !w.unfinished() {
			continue // operators look before they delete
		}
		all = append(all, choice{i, outcomeGood})
		if w.faults > 0 && a.name != operator {
			for _, o := range faultsAt[a.at] {
				all = append(all, choice{i, o})
			}
		}
	}
	if w.naps > 0 && len(all) > 0 {
		all = append(all, choice{-1, outcomeGood})
	}
	return all
}

var faultsAt = map[step][]outcome{
	stepBegin:     {outcomeCut},
	stepStatement: {outcomeCut, outcomeCrash},
	stepHandle:    {outcomeCut, outcomeFail, outcomeCrash},
	stepCommit:    {outcomeCut, outcomeLost, outcomeCrash},
	stepCall:      {outcomeFail, outcomeNone, outcomeCrash},
	stepPrepare:   {outcomeFail, outcomeCrash},
	stepRemove:    {outcomeFail, outcomeCrash},
}

const operator = "operator"

// unfinished reports whether the row is what ErrUnfinished is about.
func (w *world) unfinished() bool {
	r := w.server.event(theEvent.ID).row
	return r.there && r.status == "PROCESSING" && time.Since(r.claimed) > 2*callLimit
}

func (w *world) key() string {
	s := w.server
	var b strings.Builder
	for _, id := range s.ids() {
		e := s.events[id]
		fmt.Fprintf(&b, "%s %v %v %v %v|%v %v %v|", id, e.row.there, e.row.status, e.row.life, e.row.xmin, e.effects,
			e.completed, e.removed)
		if e.row.there {
			fmt.Fprint(&b, e.row.claimed.Sub(w.began))
		}
	}
	fmt.Fprintf(&b, "%v|%v %v|%s|", w.calls, w.faults, w.naps, s.attemptsKey())
	for _, a := range w.actors {
		fmt.Fprintf(&b, "|%v %v %v %v %s", a.at, a.over, a.crashed, a.waits != nil && !a.waits.over, a.history.String())
	}
	return b.String()
}

// check is what must be true in every state.
func (w *world) check() error {
	s := w.server
	if s.young {
		return errors.New("a row was pruned that was not old enough")
	}
	if w.scenario.forwards {
		return w.checkCalls()
	}
	for _, id := range s.ids() {
		if err := w.checkEvent(id, s.events[id]); err != nil {
			return fmt.Errorf("event %s: %w", id, err)
		}
	}
	return w.checkFiles()
}

func (w *world) checkEvent(id string, e *eventRow) error {
	if e.effects != len(e.completed) {
		return fmt.Errorf("%d effects are committed, and %d claims", e.effects, len(e.completed))
	}
	removed := 0
	for _, is := range e.removed {
		if is {
			removed++
		}
	}
	if e.effects > 1+removed {
		return fmt.Errorf("it had its effect %d times", e.effects)
	}
	for _, a := range w.actors {
		if a.over && !a.crashed && a.delivers(id) && e.effects == 0 &&
			(a.err == nil || errors.Is(a.err, ErrDuplicate)) {
			return fmt.Errorf("%s returns that it is handled, and it had no effect", a.name)
		}
	}
	return nil
}

// delivers reports whether the actor delivers the event, as a name says: "A e", "B e f".
func (a *actor) delivers(id string) bool { return strings.Contains(a.name, " "+id) }

func (w *world) checkCalls() error {
	lives := map[int]bool{}
	good := map[int]bool{}
	effects := 0
	for _, c := range w.calls {
		if c.life == 0 || lives[c.life] {
			return fmt.Errorf("a call was made without a claim of its own: %v", w.calls)
		}
		lives[c.life] = true
		good[c.life] = c.good
		if c.effect && !w.server.event(theEvent.ID).removed[c.life] {
			effects++
		}
	}
	if effects > 1 {
		return fmt.Errorf("%d calls may have had their effect, beside calls whose claim an operator deleted", effects)
	}
	e := w.server.event(theEvent.ID)
	for _, life := range e.completed {
		if !good[life] {
			return errors.New("the ledger says COMPLETED, and no call under that claim was successful")
		}
	}
	for _, a := range w.actors {
		handled := a.err == nil || errors.Is(a.err, ErrDuplicate)
		if a.over && !a.crashed && a.delivers(theEvent.ID) && handled && len(e.completed) == 0 {
			return fmt.Errorf("%s returns that the event is handled, and no call was successful", a.name)
		}
	}
	return nil
}

// finish is what must be true when no actor can go on: all are done, and the next delivery comes to an end.
//
//waits:bubble
func (w *world) finish() error {
	for _, a := range w.actors {
		if !a.over && (a.name != operator || a.at != stepStart) {
			return fmt.Errorf("%s waits for ever", a.name)
		}
	}
	time.Sleep(w.scenario.nap) // no claim is fresh any more
	a := w.start("the last delivery of e f", w.scenario.final)
	for !a.over {
		if !a.runnable() {
			return errors.New("the last delivery waits for ever")
		}
		w.let(a, outcomeGood)
	}
	if err := w.check(); err != nil {
		return err
	}
	switch {
	case w.scenario.attempts && (a.err == nil || errors.Is(a.err, ErrDuplicate)):
		return w.finishFiles()
	case a.err == nil, errors.Is(a.err, ErrDuplicate):
		return nil
	case w.scenario.forwards && errors.Is(a.err, ErrUnfinished) && w.faulty:
		return nil
	}
	return fmt.Errorf("the last delivery, which nothing disturbs, ends with: %w", a.err)
}

// tell adds the run to a violation.
func (s *search) tell(path []choice, err error) error {
	if err == nil {
		return nil
	}
	w := s.begin()
	defer w.end()
	var b strings.Builder
	fmt.Fprintf(&b, "%v\nin the world %q", err, s.sc.name)
	for _, c := range path {
		if c.who < 0 {
			fmt.Fprintf(&b, "\n  time passes")
		} else {
			a := w.actors[c.who]
			fmt.Fprintf(&b, "\n  %-12s %-10s %-10s %.50q", a.name, stepNames[a.at], outcomeNames[c.o], a.text)
		}
		w.take(c)
	}
	return errors.New(b.String())
}

var (
	stepNames = [...]string{
		"starts", "begins", "statement", "waits", "handles", "commits", "calls", "prepares", "removes",
	}
	outcomeNames = [...]string{"", "is cut", "is lost", "fails", "not sent", "crashes", "ends"}
)
