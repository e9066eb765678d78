package offsets

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// search visits every state that can be reached, breadth first, so that the trace of a violation is a shortest one.
// There is no limit on the number of faults: states repeat, so the search ends.
//
// Safety is checked in every state. Liveness is checked without following paths: each step that is not a fault raises a
// rank (see world.rank), so with faults ended every run comes to an end; where it ends must be the goal.
type search struct {
	sc       *scenario
	mutant   mutant
	seeds    [2]maphash.Seed
	visited  map[[2]uint64]struct{}
	came     []origin
	taken    int // steps
	identity []byte
	try      world
}

type origin struct {
	from int32
	by   step
}

type node struct {
	w   *world
	id  int32
	key [2]uint64
}

// refuted is a violation with the steps that lead to it.
type refuted struct {
	what  string
	trace []step
}

func newSearch(sc *scenario, m mutant) *search {
	return &search{
		sc: sc, mutant: m, visited: map[[2]uint64]struct{}{},
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
}

// run returns nil when every promise holds in every state.
func (s *search) run() *refuted {
	first := newWorld(s.sc, s.mutant)
	level := []node{{w: first, key: s.key(first)}}
	s.visited[level[0].key] = struct{}{}
	s.came = append(s.came, origin{from: -1})
	for len(level) > 0 {
		var next []node
		for i, n := range level {
			level[i].w = nil
			found, bad := s.expand(n)
			if bad != nil {
				return bad
			}
			next = append(next, found...)
		}
		level = next
	}
	return nil
}

// expand takes every step from one state.
func (s *search) expand(n node) (found []node, bad *refuted) {
	progress := false
	for by := range steps {
		if !n.w.enabled(by) {
			continue
		}
		s.taken++
		w := &s.try
		w.assign(n.w)
		err := w.do(by)
		if err == nil {
			err = w.check(n.w, by)
		}
		if err != nil {
			return nil, &refuted{what: err.Error(), trace: append(s.trace(n.id), by)}
		}
		key := s.key(w)
		if by < firstFault && key != n.key {
			if w.rank() <= n.w.rank() && s.mutant <= faithfulRewinding {
				return nil, &refuted{
					what: "liveness: a step without a fault led in a circle", trace: append(s.trace(n.id), by),
				}
			}
			progress = true
		}
		if _, ok := s.visited[key]; ok {
			continue
		}
		s.visited[key] = struct{}{}
		found = append(found, node{w: w.clone(), id: int32(len(s.came)), key: key})
		s.came = append(s.came, origin{from: n.id, by: by})
	}
	if !progress && !n.w.goal() {
		return nil, &refuted{
			what: "liveness: nothing moves any more without a fault, and this is not the goal", trace: s.trace(n.id),
		}
	}
	return found, nil
}

func (s *search) key(w *world) [2]uint64 {
	s.identity = w.identity(s.identity[:0])
	return [2]uint64{maphash.Bytes(s.seeds[0], s.identity), maphash.Bytes(s.seeds[1], s.identity)}
}

func (s *search) trace(id int32) []step {
	if id <= 0 {
		return nil
	}
	return append(s.trace(s.came[id].from), s.came[id].by)
}

// tell runs the trace again and writes what happens.
func (r *refuted) tell(sc *scenario, m mutant) string {
	var b strings.Builder
	fmt.Fprintf(&b, "transactions %s; log ends at %d", sc.name, sc.end)
	for _, it := range sc.items {
		if it.tx >= 0 {
			fmt.Fprintf(&b, "; tx%d commits at %d, ends at %d", it.tx, it.commit, it.end)
		}
	}
	w := newWorld(sc, m)
	for i, s := range r.trace {
		text := w.describe(s)
		_ = w.do(s)
		fmt.Fprintf(&b, "\n%3d. %-46s %s", i+1, text, w)
	}
	fmt.Fprintf(&b, "\n  => %s", r.what)
	return b.String()
}

// describe says what the step would do here.
func (w *world) describe(s step) string {
	switch s {
	case stepColdStart:
		return fmt.Sprintf("connector starts, slot is at %d", w.memory)
	case stepRead:
		return fmt.Sprintf("connector will start at %d", w.from())
	case stepStart:
		return fmt.Sprintf("START_REPLICATION at %d", w.request)
	case stepMessage:
		it := &w.sc.items[w.item]
		switch {
		case it.tx < 0:
			return "walsender passes over other writes"
		case !it.sent:
			return fmt.Sprintf("walsender passes over tx%d, which is empty", it.tx)
		case w.msg == 0:
			return fmt.Sprintf("Begin tx%d", it.tx)
		case w.msg <= len(it.rows):
			return fmt.Sprintf("row %d of tx%d, key %c", w.msg-1, it.tx, 'a'+w.sc.rows[it.rows[w.msg-1]].key)
		default:
			return fmt.Sprintf("Commit tx%d, end %d", it.tx, it.end)
		}
	case stepKeepalive:
		return fmt.Sprintf("keepalive, WAL end %d", w.sentEnd)
	case stepKeepaliveAhead:
		return fmt.Sprintf("keepalive, WAL end %d", w.sc.items[w.item].end)
	case stepAppendA, stepAppendB:
		p := s - stepAppendA
		return fmt.Sprintf("broker appends row of tx%d, key %c", w.sc.rows[w.queue[p][w.appended[p]].row].tx, 'a'+p)
	case stepAckA, stepAckB:
		p := s - stepAckA
		return fmt.Sprintf("ack for row of tx%d, key %c", w.sc.rows[w.queue[p][0].row].tx, 'a'+p)
	default:
		return [...]string{
			0: "status update", stepSave - stepStatus: "Postgres saves the slot",
			stepBreak - stepStatus: "the stream breaks", stepRestart - stepStatus: "Postgres restarts",
			stepCrash - stepStatus: "the connector crashes", stepRewind - stepStatus: "the connector rewinds",
		}[s-stepStatus]
	}
}
