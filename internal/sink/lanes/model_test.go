package lanes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// scenario is a small world: the keys of the events 1, 2, 3, … and what may go wrong.
type scenario struct {
	name                  string
	keys                  string // of the events, a letter each; '-' is none
	lanes, batch          int
	refused, cuts, starts int  // messages refused, connections lost, sessions given up
	prefixes              bool // the broker takes any prefix of a batch; otherwise any record of it, or not
}

var scenarios = []scenario{
	{name: "one key", keys: "aaa", lanes: 1, batch: 1, refused: 1, cuts: 1, starts: 1},
	{name: "two keys", keys: "aba", lanes: 2, batch: 1, refused: 1, cuts: 1},
	{name: "two keys, one lane", keys: "aba", lanes: 1, batch: 1, refused: 2, cuts: 1},
	{name: "without a key", keys: "-a-", lanes: 2, batch: 1, refused: 1, cuts: 1},
	{name: "batches", keys: "aaaa", lanes: 1, batch: 2, refused: 1, cuts: 1, prefixes: true},
	{name: "the source begins again", keys: "ab", lanes: 2, batch: 1, refused: 1, cuts: 1, starts: 2},
}

// mutant is a mistake that could have been made. The zero value is none.
type mutant struct {
	name, refutedIn string

	anyLane     bool // the next record of a key does not wait for its predecessor
	skips       bool // a refused record is sent after its successors
	manyAtOnce  bool // batches of a broker that takes the second record without the first
	lateAnswers bool // an answer of an earlier connection counts
	forgets     bool // what was in flight on a lost connection counts as sent
	afterwards  bool // what was settled is acknowledged although the session is given up
	twice       bool // what is acknowledged stays settled
	givesUp     bool // a refused record is not sent again
}

var mutants = []mutant{
	{name: "the next record does not wait", refutedIn: "one key", anyLane: true},
	{name: "a retry skips the refused record", refutedIn: "one key", skips: true},
	{name: "batches without order", refutedIn: "one key", manyAtOnce: true},
	{name: "a late answer counts", refutedIn: "two keys", lateAnswers: true},
	{name: "a lost connection has sent everything", refutedIn: "one key", forgets: true},
	{name: "acknowledged after Abandon", refutedIn: "the source begins again", afterwards: true},
	{name: "a ticket twice", refutedIn: "one key", twice: true},
	{name: "a refused record is left", refutedIn: "one key", givesUp: true},
}

// sent is a batch on a connection. The broker answers later.
type sent struct {
	Batch
	events  []int
	stored  int
	decided bool
}

// modelWorld is a source, the lanes, a connection and the log of a broker.
type modelWorld struct {
	scenario
	mutant
	state *State[int]
	now   time.Time

	next    int            // event that the source adds next
	covered map[int]bool   // acknowledged, in this session or an earlier one
	given   map[int]uint64 // tickets of this session, by event
	ticket  uint64
	flight  []sent
	late    []sent // answers of connections that are lost
	log     []int
	wrong   error
}

func newModel(sc scenario, m mutant) *modelWorld {
	w := &modelWorld{
		scenario: sc, mutant: m, now: time.Unix(0, 0), next: 1, covered: map[int]bool{}, given: map[int]uint64{},
	}
	if m.manyAtOnce {
		w.batch = 2
	}
	if m.anyLane {
		w.lanes = 2
	}
	w.state = NewState[int](w.lanes, w.batch)
	return w
}

func (w *modelWorld) clone() *modelWorld {
	c := *w
	s := *w.state
	s.lanes, s.slots, s.pausing, s.done = slices.Clone(s.lanes), slices.Clone(s.slots), slices.Clone(s.pausing),
		slices.Clone(s.done)
	c.state, c.covered, c.given = &s, maps.Clone(w.covered), maps.Clone(w.given)
	c.flight, c.late, c.log = slices.Clone(w.flight), slices.Clone(w.late), slices.Clone(w.log)
	return &c
}

// key is equal for states that go on in the same ways: which numbers batches, tickets and slots have does not matter.
func (w *modelWorld) key() string {
	var b strings.Builder
	for i := range w.state.lanes {
		l := &w.state.lanes[i]
		fmt.Fprintf(&b, "%d %d %v %d:", l.sent, l.attempt, l.pauses, l.due.Sub(w.now))
		for at := l.head; at != none; at = w.state.slots[at].next {
			fmt.Fprintf(&b, " %d", w.state.slots[at].Message)
		}
		b.WriteByte('|')
	}
	for at := w.state.first; at != none; at = w.state.lanes[at].next {
		fmt.Fprintf(&b, " %d", at)
	}
	for _, r := range w.state.done {
		fmt.Fprintf(&b, ",%d", w.event(r.Ticket))
	}
	for _, f := range w.flight {
		fmt.Fprintf(&b, ";%d %v %d %v %v", f.Lane, f.events, f.stored, f.decided, w.state.current(f.Batch))
	}
	if w.lateAnswers {
		fmt.Fprint(&b, w.late)
	}
	fmt.Fprintf(&b, "|%d %d %v %v %v %v %d %d %d", w.state.turn, w.next, w.covered, slices.Sorted(maps.Keys(w.given)),
		w.log, w.wrong, w.refused, w.cuts, w.starts)
	return b.String()
}

// event is whose ticket it is in this session, 0 for none.
func (w *modelWorld) event(ticket uint64) int {
	for event, given := range w.given {
		if given == ticket {
			return event
		}
	}
	return 0
}

// move is a step that may happen next.
type move struct {
	name string
	do   func(*modelWorld)
}

func (w *modelWorld) moves() (all []move) {
	may := func(is bool, name string, do func(*modelWorld)) {
		if is {
			all = append(all, move{name, do})
		}
	}
	may(w.next <= len(w.keys), "an event is added", (*modelWorld).add)
	may(w.state.first != none, "a batch is sent", (*modelWorld).send)
	may(len(w.state.pausing) > 0 && w.state.first == none, "time passes", (*modelWorld).pass)
	may(len(w.state.done) > 0, "settled records are delivered", (*modelWorld).deliver)
	may(w.cuts > 0 && len(w.flight) > 0, "the connection is lost", (*modelWorld).cut)
	may(w.starts > 0, "the session is given up", (*modelWorld).restart)
	for i, f := range w.flight {
		if f.decided {
			all = append(all, move{fmt.Sprintf("the answer to %v: %d", f.events, f.stored), func(w *modelWorld) {
				w.answer(i)
			}})
			continue
		}
		for taken := range 1 << len(f.events) {
			refuses := taken != 1<<len(f.events)-1
			if refuses && w.refused == 0 || w.prefixes && taken&(taken+1) != 0 {
				continue
			}
			all = append(all, move{fmt.Sprintf("the broker takes %b of %v", taken, f.events), func(w *modelWorld) {
				w.decide(i, taken)
			}})
		}
	}
	if w.lateAnswers && len(w.late) > 0 {
		all = append(all, move{"a late answer", func(w *modelWorld) {
			f := w.late[0]
			w.late = w.late[1:]
			f.number = w.state.lanes[f.Lane].number
			w.settle(f)
		}})
	}
	return all
}

// add has the source read its next event, unless it is acknowledged.
func (w *modelWorld) add() {
	n := w.next
	w.next++
	w.ticket++
	key := []byte{w.keys[n-1]}
	if key[0] == '-' {
		key = nil
	}
	number := w.state.Lane(key)
	if w.anyLane {
		number = n % w.lanes
	} else if key != nil {
		number = int(key[0]-'a') % w.lanes // the hash would put both keys into one
	}
	w.given[n] = w.ticket
	w.state.Add(number, Record[int]{Topic: "t", Ticket: w.ticket, Size: 1, Message: n})
}

func (w *modelWorld) send() {
	b, ok := w.state.Next(w.now)
	if !ok {
		w.wrong = fmt.Errorf("a lane may send, and Next returns nothing")
		return
	}
	w.flight = append(w.flight, sent{Batch: b, events: w.state.Messages(b, nil)})
}

func (w *modelWorld) pass() {
	w.now = w.state.Due()
	w.state.wake(w.now)
}

// decide has the broker take some of a batch, or refuse it.
func (w *modelWorld) decide(i, taken int) {
	f := &w.flight[i]
	f.decided = true
	if taken != 1<<len(f.events)-1 {
		w.refused--
	}
	for bit, event := range f.events {
		if taken&(1<<bit) != 0 {
			w.log = append(w.log, event)
		}
	}
	for f.stored < len(f.events) && taken&(1<<f.stored) != 0 {
		f.stored++
	}
}

func (w *modelWorld) answer(i int) {
	f := w.flight[i]
	w.flight = slices.Delete(w.flight, i, i+1)
	w.settle(f)
}

func (w *modelWorld) settle(f sent) {
	failed := f.stored < f.Records
	switch {
	case failed && w.skips:
		l := &w.state.lanes[f.Lane]
		refused := w.state.slots[l.head].Record
		w.state.Settle(f.Batch, f.Records, w.now)
		w.state.done = w.state.done[:len(w.state.done)-f.Records]
		w.state.Add(f.Lane, refused)
	case failed && w.givesUp:
		w.state.Settle(f.Batch, f.Records, w.now)
		w.state.done = w.state.done[:len(w.state.done)-f.Records]
	default:
		w.state.Settle(f.Batch, f.stored, w.now)
	}
}

func (w *modelWorld) deliver() {
	settled := w.state.Done(nil)
	if w.twice {
		w.state.done = slices.Clone(settled)
		w.mutant.twice = false
	}
	for _, r := range settled {
		event := w.event(r.Ticket)
		switch {
		case event == 0:
			w.wrong = fmt.Errorf("ticket %d is acknowledged twice, or after it was given up", r.Ticket)
			return
		case !slices.Contains(w.log, event):
			w.wrong = fmt.Errorf("event %d is acknowledged, and the broker does not have it", event)
		}
		w.covered[event] = true
		delete(w.given, event)
	}
}

// cut loses the connection. What it has not brought to the broker does not arrive any more, see the adapter's lock.
func (w *modelWorld) cut() {
	w.cuts--
	if w.forgets {
		for _, f := range w.flight {
			w.state.Settle(f.Batch, f.Records, w.now)
			w.state.done = w.state.done[:len(w.state.done)-f.Records]
		}
	}
	w.late = append(w.late, w.flight...)
	w.flight = nil
	w.state.Again()
}

// restart gives the session up, and reads again from the first event that is not acknowledged.
func (w *modelWorld) restart() {
	w.starts--
	settled := slices.Clone(w.state.done)
	records, bytes := w.state.Abandon()
	if records != len(w.given) || bytes != int64(records) {
		w.wrong = fmt.Errorf("%d records of %d bytes are given up, of %d", records, bytes, len(w.given))
	}
	if w.afterwards {
		w.state.done = settled
	}
	clear(w.given)
	w.flight = nil
	for w.next = 1; w.covered[w.next]; w.next++ {
		continue
	}
	for e := range w.covered {
		if e > w.next {
			delete(w.covered, e)
		}
	}
}

// check is true in every state: first appearances of a key in its order, and repeats as rewinds: the event after n is
// n's next one, or one that is not after n.
func (w *modelWorld) check() error {
	if w.wrong != nil {
		return w.wrong
	}
	last := map[byte]int{}
	for _, event := range w.log {
		key := w.keys[event-1]
		if key == '-' {
			continue
		}
		for between := last[key] + 1; between < event; between++ {
			if w.keys[between-1] == key {
				return fmt.Errorf("event %d of key %c is in the log without event %d before it", event, key, between)
			}
		}
		last[key] = event
	}
	flying := 0
	for i := range w.state.lanes {
		if w.state.lanes[i].number != 0 {
			flying++
		}
	}
	if flying != w.state.sending || w.state.records+len(w.state.done) != len(w.given) && !w.afterwards && !w.givesUp {
		return fmt.Errorf("%d batches of %d are in flight, %d records of %d are held", flying, w.state.sending,
			w.state.records+len(w.state.done), len(w.given))
	}
	return nil
}

// finished is true in a state after which nothing happens.
func (w *modelWorld) finished() error {
	newest := map[byte]int{}
	for i := range w.keys {
		newest[w.keys[i]] = i + 1
		if !w.covered[i+1] {
			return fmt.Errorf("event %d is never acknowledged", i+1)
		}
	}
	last := map[byte]int{}
	for _, event := range w.log {
		last[w.keys[event-1]] = event
	}
	for key, event := range newest {
		if key != '-' && last[key] != event {
			return fmt.Errorf("the last event of key %c in the log is %d", key, last[key])
		}
	}
	return nil
}

type visit struct {
	world *modelWorld
	path  []string
}

// search visits every state. It returns a violation with the moves that led to it, or nothing.
func search(sc scenario, m mutant) (violation string, states int) {
	visited := map[string]bool{}
	for open := []visit{{world: newModel(sc, m)}}; len(open) > 0; {
		v := open[len(open)-1]
		open = open[:len(open)-1]
		if key := v.world.key(); visited[key] {
			continue
		} else {
			visited[key] = true
		}
		err := v.world.check()
		can := v.world.moves()
		if err == nil && len(can) == 0 {
			err = v.world.finished()
		}
		if err != nil {
			return err.Error() + "\n  " + strings.Join(v.path, "\n  "), len(visited)
		}
		for _, c := range can {
			next := v.world.clone()
			c.do(next)
			open = append(open, visit{next, append(slices.Clone(v.path), c.name)})
		}
	}
	return "", len(visited)
}

// TestModel: in every order of events, answers, refusals, lost connections and new sessions, the log has the events of
// a key in their order, nothing is acknowledged that is not in it, and nothing is left.
func TestModel(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			violation, states := search(sc, mutant{})
			require.Empty(t, violation)
			t.Logf("%d states", states)
		})
	}
}

// TestModelRefutesMutants: each planted mistake breaks a promise. Otherwise the model would show nothing.
func TestModelRefutesMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(scenarios, func(sc scenario) bool { return sc.name == m.refutedIn })
			violation, _ := search(scenarios[i], m)
			require.NotEmpty(t, violation)
			t.Log(violation)
		})
	}
}
