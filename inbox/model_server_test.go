package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// server is a stand-in for Postgres as far as the ledger sees it: the rows of events, READ COMMITTED, advisory locks,
// and the effects of handlers. TestTheModelOfTheServer holds it against Postgres.
type server struct {
	clock     func() time.Time
	events    map[string]*eventRow
	attempts  map[string]*attemptRow
	outside   outside
	locks     map[int64]*transaction
	lastXID   int
	lastLife  int
	young     bool // a row was pruned that was not old enough
	impatient bool // an INSERT does not wait: of a mutant
}

// eventRow is all about the row of one event.
type eventRow struct {
	row     row // as committed
	writer  *transaction
	effects int // committed

	completed []int        // the lives of rows that were committed as COMPLETED
	removed   map[int]bool // the lives of rows that an operator, or prune as it may, has deleted
}

// row is a version of the event's row. life distinguishes a row from a later one of the same event.
type row struct {
	there   bool
	status  string
	life    int
	xmin    int
	claimed time.Time
}

// transaction is one of the server's. Its changes are visible to itself only, until it commits.
type transaction struct {
	on     *server
	began  time.Time
	xid    int
	events map[string]*change
	over   bool

	attempts  map[string]attemptChange
	publishes []string // attempts
}

// change is what a transaction does about an event.
type change struct {
	row     row // valid while the transaction is the event's writer
	effects int
	removes bool // the row, on purpose
	prunes  bool // because of its age
}

func newServer(clock func() time.Time) *server {
	return &server{
		clock: clock, locks: map[int64]*transaction{}, events: map[string]*eventRow{},
		attempts: map[string]*attemptRow{}, outside: outside{files: map[string]bool{}},
	}
}

func (s *server) begin() *transaction {
	return &transaction{on: s, began: s.clock(), events: map[string]*change{}}
}

func (s *server) event(id string) *eventRow {
	if s.events[id] == nil {
		s.events[id] = &eventRow{removed: map[int]bool{}}
	}
	return s.events[id]
}

func (s *server) ids() []string { return slices.Sorted(maps.Keys(s.events)) }

func (tx *transaction) event(id string) *change {
	if tx.events[id] == nil {
		tx.events[id] = &change{}
	}
	return tx.events[id]
}

// answer of one statement.
type answer struct {
	rows  int64
	value any  // of the first column, where there is a row
	more  bool // a statement with several ids has come to the next one
}

// pending is a statement that was begun. A statement that waits for another transaction goes on where it was.
type pending struct {
	tx    *transaction
	text  string
	args  []any
	begun bool
	life  int // of the row that the statement found when it began

	done    int // of several ids
	claimed []string
}

func (p *pending) id() string { return p.args[1].(string) }

// list is the parameter with several ids.
func (p *pending) list() []string {
	return strings.Split(strings.Trim(p.id(), `{"}`), `","`)
}

var errAborted = errors.New("current transaction is aborted")

// try runs the statement, or returns the transaction that it has to wait for.
func (p *pending) try() (answer, *transaction, error) {
	s, tx := p.tx.on, p.tx
	if tx.over {
		return answer{}, nil, errAborted
	}
	first := !p.begun
	p.begun = true
	switch {
	case strings.Contains(p.text, "_attempts"):
		return p.attempt(first)
	case p.text == lockStatement:
		return one(s.lock(tx, p.args[0].(int64))), nil, nil
	case strings.Contains(p.text, "unnest($4"):
		return p.each()
	case strings.HasPrefix(p.text, "INSERT"):
		claims, waits := p.insert(p.id())
		if !claims {
			return answer{}, waits, nil
		}
		return one(strconv.Itoa(tx.xid)), nil, nil
	case strings.Contains(p.text, "bool_and"):
		return p.states(), nil, nil
	case strings.HasPrefix(p.text, "SELECT"):
		return p.state(), nil, nil
	case strings.Contains(p.text, "SKIP LOCKED"):
		return p.prune(), nil, nil
	case strings.HasPrefix(p.text, "UPDATE"), strings.HasPrefix(p.text, "DELETE"):
		return p.change(first)
	}
	panic("the model does not know the statement " + p.text)
}

func (s *server) lock(tx *transaction, key int64) bool {
	if holder := s.locks[key]; holder != nil && holder != tx {
		return false
	}
	s.locks[key] = tx
	return true
}

func one(value any) answer { return answer{rows: 1, value: value} }

// each inserts the row of the next id.
func (p *pending) each() (answer, *transaction, error) {
	ids := p.list()
	claims, waits := p.insert(ids[p.done])
	if waits != nil {
		return answer{}, waits, nil
	}
	if claims {
		p.claimed = append(p.claimed, ids[p.done])
	}
	p.done++
	return answer{int64(len(p.claimed)), p.claimed, p.done < len(ids)}, nil, nil
}

// insert reports whether the row was inserted, or which transaction it has to wait for.
func (p *pending) insert(id string) (claims bool, waits *transaction) {
	s, tx := p.tx.on, p.tx
	if other := s.other(tx, id); other != nil {
		if s.impatient {
			return false, nil
		}
		return false, other
	}
	if tx.visible(id).there {
		return false, nil
	}
	tx.write(id, row{there: true, status: p.args[2].(string), life: s.newLife(), claimed: tx.began})
	return true, nil
}

// other is the transaction in progress that has changed the row, if it is not tx.
func (s *server) other(tx *transaction, id string) *transaction {
	writer := s.event(id).writer
	if writer == tx {
		return nil
	}
	return writer
}

func (s *server) newLife() int { s.lastLife++; return s.lastLife }

func (tx *transaction) visible(id string) row {
	if tx.on.event(id).writer == tx {
		return tx.event(id).row
	}
	return tx.on.event(id).row
}

func (tx *transaction) write(id string, r row) {
	if tx.xid == 0 {
		tx.on.lastXID++
		tx.xid = tx.on.lastXID
	}
	r.xmin = tx.xid
	tx.event(id).row, tx.on.event(id).writer = r, tx
}

// states is what the statement of that name says of the rows.
func (p *pending) states() answer {
	completed := true
	for _, id := range p.list() {
		r := p.tx.visible(id)
		if r.there && r.status == "PROCESSING" {
			return one("unfinished")
		}
		completed = completed && r.there
	}
	if completed {
		return one("completed")
	}
	return one("deleted")
}

// state is what the statement of that name says of the row.
func (p *pending) state() answer {
	r := p.tx.visible(p.id())
	age := time.Duration(p.args[2].(int64)) * time.Microsecond
	switch {
	case !r.there:
		return answer{}
	case r.status == "COMPLETED":
		return one("completed")
	case r.claimed.Before(p.tx.began.Add(-age)):
		return one("stale")
	}
	return one("fresh")
}

// prune takes rows that are completed, old enough, and that no transaction is changing.
func (p *pending) prune() (a answer) {
	age := time.Duration(p.args[1].(int64)) * time.Microsecond
	onlyCompleted := strings.Contains(p.text, "'COMPLETED'")
	for _, id := range p.tx.on.ids() {
		r := p.tx.visible(id)
		if p.tx.on.other(p.tx, id) != nil || !r.there || onlyCompleted && r.status != "COMPLETED" ||
			!r.claimed.Before(p.tx.began.Add(-age)) {
			continue
		}
		p.tx.write(id, row{})
		p.tx.event(id).removes, p.tx.event(id).prunes = r.status == "COMPLETED", true
		a.rows++
	}
	return a
}

// change is an UPDATE to COMPLETED, or a DELETE, of a row that is PROCESSING. It finds the row as it was when the
// statement began, waits for who is changing it, and then looks at the row's latest version again (docs 13.2.1).
func (p *pending) change(first bool) (answer, *transaction, error) {
	r := p.tx.visible(p.id())
	if first {
		if p.life = r.life; !p.matches(r) {
			return answer{}, nil, nil
		}
	}
	if other := p.tx.on.other(p.tx, p.id()); other != nil {
		return answer{}, other, nil
	}
	if r.life != p.life || !p.matches(r) {
		return answer{}, nil, nil
	}
	if strings.HasPrefix(p.text, "DELETE") {
		r = row{}
	} else {
		r.status = "COMPLETED"
	}
	p.tx.write(p.id(), r)
	return answer{rows: 1}, nil, nil
}

func (p *pending) matches(r row) bool {
	mine := !strings.Contains(p.text, "xmin::text = $3") || p.args[2] == strconv.Itoa(r.xmin)
	return r.there && r.status == "PROCESSING" && mine
}

func (tx *transaction) commit() error {
	over := tx.over
	for id, c := range tx.events {
		if over {
			break
		}
		e := tx.on.event(id)
		if e.writer == tx {
			if c.row.there && c.row.status == "COMPLETED" {
				e.completed = append(e.completed, c.row.life)
			}
			e.removed[e.row.life] = e.removed[e.row.life] || c.removes
			tx.on.young = tx.on.young || c.prunes && tx.began.Sub(e.row.claimed) < MinKeep
			e.row = c.row
		}
		e.effects += c.effects
	}
	if !over {
		tx.commitAttempts()
	}
	tx.end()
	if over {
		return errAborted
	}
	return nil
}

// end is a rollback, or what follows from the end of the session.
func (tx *transaction) end() {
	tx.over = true
	for _, e := range tx.on.events {
		if e.writer == tx {
			e.writer = nil
		}
	}
	for _, r := range tx.on.attempts {
		if r.writer == tx {
			r.writer = nil
		}
	}
	for key, holder := range tx.on.locks {
		if holder == tx {
			delete(tx.on.locks, key)
		}
	}
}

// scanned puts an answer's value where the caller wants it.
func scanned(a answer, dest any) error {
	if a.rows == 0 {
		return sql.ErrNoRows
	}
	switch d := dest.(type) {
	case *bool:
		*d = a.value.(bool)
	case *string:
		*d = a.value.(string)
	default:
		return fmt.Errorf("the model does not scan a %T", dest)
	}
	return nil
}

var _ session = (*modelSession)(nil)

// modelSession runs the statements of a transaction, one step of its actor each.
type modelSession struct {
	actor *actor
	tx    *transaction
}

func (m *modelSession) run(text string, args []any) (answer, error) {
	p := pending{tx: m.tx, text: text, args: args}
	at := stepStatement
	for {
		cut := m.actor.stop(at, text) == outcomeCut
		m.actor.waits = nil
		if cut {
			m.tx.end()
			return answer{}, errCut
		}
		a, waits, err := p.try()
		if waits != nil {
			m.actor.waits, at = waits, stepWait
			continue
		}
		m.actor.note("%v %v", a, err)
		if at = stepStatement; !a.more {
			return a, err
		}
	}
}

func (m *modelSession) exec(_ context.Context, text string, args ...any) (int64, error) {
	a, err := m.run(text, args)
	return a.rows, err
}

func (m *modelSession) scan(_ context.Context, dest any, text string, args ...any) error {
	a, err := m.run(text, args)
	if err != nil {
		return err
	}
	return scanned(a, dest)
}

func (m *modelSession) texts(_ context.Context, text string, args ...any) ([]string, error) {
	a, err := m.run(text, args)
	if err != nil {
		return nil, err
	}
	return a.value.([]string), nil
}

// errCut is a connection that is lost.
var errCut = errors.New("the connection is lost")
