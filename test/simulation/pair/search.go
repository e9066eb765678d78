package pair

import (
	"fmt"
	"strings"
)

// search visits every state, breadth first, so that a trace to a broken promise is a shortest one. Liveness: from every
// state a goal can be reached without a further fault.
type search struct {
	rules rules
	bound bounds
	ids   map[world]int32
	all   []world
	came  []origin
	back  [][]int32 // steps that are not faults, reversed
	goals []int32
}

type origin struct {
	from int32
	by   step
}

// refuted is a broken promise, with the steps that lead to it.
type refuted struct {
	what  string
	trace []step
}

func (s *search) run() *refuted {
	s.ids = map[world]int32{}
	s.add(first(), -1, step{})
	for i := int32(0); int(i) < len(s.all); i++ {
		w := s.all[i]
		if bad := w.broken(s.rules); bad != "" {
			return &refuted{bad, s.trace(i)}
		}
		if w.records == most || w.goal() {
			s.goals = append(s.goals, i)
		}
		if w.records == most {
			continue
		}
		for k := range kinds {
			for who := range int8(2) {
				if who == 1 && k.common() {
					continue
				}
				next, by := w, step{k, who}
				if !next.applyStep(by, s.rules, s.bound) || next == w {
					continue
				}
				id := s.add(next, i, by)
				if k < freeze || k == backup {
					s.back[id] = append(s.back[id], i)
				}
			}
		}
	}
	return s.alive()
}

func (k kind) common() bool {
	return k == commit || k == grant || k == backup || k == restore || k == deny || k == purge
}

func (s *search) add(w world, from int32, by step) int32 {
	if id, ok := s.ids[w]; ok {
		return id
	}
	id := int32(len(s.all))
	s.ids[w] = id
	s.all = append(s.all, w)
	s.came = append(s.came, origin{from, by})
	s.back = append(s.back, nil)
	return id
}

// alive goes back from the goals.
func (s *search) alive() *refuted {
	reaches := make([]bool, len(s.all))
	for todo := s.goals; len(todo) > 0; {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if reaches[id] {
			continue
		}
		reaches[id] = true
		todo = append(todo, s.back[id]...)
	}
	for id, ok := range reaches {
		if !ok {
			return &refuted{"L: from here on not everything arrives any more", s.trace(int32(id))}
		}
	}
	return nil
}

func (s *search) trace(id int32) []step {
	if id <= 0 {
		return nil
	}
	return append(s.trace(s.came[id].from), s.came[id].by)
}

// tell writes what happens.
func (r *refuted) tell(of rules, bound bounds) string {
	var b strings.Builder
	w := first()
	for i, by := range r.trace {
		w.applyStep(by, of, bound)
		fmt.Fprintf(&b, "%3d. %-48s %s\n", i+1, by, &w)
	}
	fmt.Fprintf(&b, "  => %s", r.what)
	return b.String()
}

func (w *world) String() string {
	text := fmt.Sprintf("log %v slot %d row %d#%d kafka %v", w.server.log[:w.length], w.confirmed, w.row, w.number,
		w.log[:w.records])
	for i := range w.p {
		p := &w.p[i]
		text += fmt.Sprintf(" %c{%d..%d %v", 'A'+i, p.acked, p.next, p.queue[:p.queued])
		switch {
		case p.halted:
			text += " ended"
		case !p.up:
			text += " down"
		case p.frozen:
			text += " frozen"
		case p.streams:
			text += " streams"
		}
		text += "}"
	}
	return text
}

// place is where an event is in the server's log, -1 for one that the server does not have.
func (w *world) place(event uint8) int {
	for i := range w.length {
		if w.server.log[i] == event {
			return int(i)
		}
	}
	return -1
}

// broken names the promise that does not hold in the state.
func (w *world) broken(r rules) string {
	var has [commits + 1]int
	last := -1
	for i := range w.records {
		event := w.log[i]
		has[event]++
		at := w.place(event)
		if at < 0 {
			continue
		}
		if at > last+1 && !w.restored {
			return "O: an event is in the topic before an older one"
		}
		last = at
		if r.once && has[event] > 1 && !w.purged {
			return "D: an event is in the topic twice"
		}
	}
	for i := range w.confirmed {
		if i < w.length && has[w.server.log[i]] == 0 {
			return "S: an event is confirmed and not in the topic"
		}
	}
	for i := range w.p {
		// a row that could not be written cannot tell another instance who moved the slot
		if p := &w.p[i]; p.halted && !w.restored && (!w.blindly || p.known && p.acked >= w.confirmed) {
			return "E: an instance ended although nothing is wrong"
		}
	}
	return ""
}

// goal: every event is in the topic, the newest last, and an instance streams; or the instances ended, since an
// operator has to decide about a server that was put back.
func (w *world) goal() bool {
	if w.p[0].halted && w.p[1].halted {
		return true
	}
	var has [commits + 1]bool
	last := -1
	for i := range w.records {
		has[w.log[i]] = true
		if at := w.place(w.log[i]); at >= 0 {
			last = at
		}
	}
	for i := range w.length {
		if !has[w.server.log[i]] {
			return false
		}
	}
	if last != int(w.length)-1 {
		return false
	}
	for i := range w.p {
		p := &w.p[i]
		if p.strays > 0 || p.flying > 0 || p.queued > 0 {
			return false
		}
	}
	return w.owner >= 0 && w.p[w.owner].streams && !w.p[w.owner].frozen
}
