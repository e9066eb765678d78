package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// server is a stand-in for Postgres as far as the ledger sees it: one event's row, READ COMMITTED, advisory locks, and
// the effects of handlers. TestTheModelOfTheServer holds it against Postgres.
type server struct {
	clock    func() time.Time
	row      row // as committed
	writer   *transaction
	locks    map[int64]*transaction
	lastXID  int
	lastLife int
	effects  int // committed

	completed []int        // the lives of rows that were committed as COMPLETED
	removed   map[int]bool // the lives of rows that an operator, or prune as it may, has deleted
	young     bool         // a row was pruned that was not old enough
	impatient bool         // an INSERT does not wait: of a mutant
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
	on      *server
	began   time.Time
	xid     int
	row     row // valid while on.writer is this one
	effects int
	removes bool // the row, on purpose
	prunes  bool // because of its age
	over    bool
}

func newServer(clock func() time.Time) *server {
	return &server{clock: clock, locks: map[int64]*transaction{}, removed: map[int]bool{}}
}

func (s *server) begin() *transaction { return &transaction{on: s, began: s.clock()} }

// answer of one statement.
type answer struct {
	rows  int64
	value any // of the first column, where there is a row
}

// pending is a statement that was begun. A statement that waits for another transaction goes on where it was.
type pending struct {
	tx    *transaction
	text  string
	args  []any
	begun bool
	life  int // of the row that the statement found when it began
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
	case p.text == lockStatement:
		return answer{1, s.lock(tx, p.args[0].(int64))}, nil, nil
	case strings.HasPrefix(p.text, "INSERT"):
		if other := s.other(tx); other != nil {
			if s.impatient {
				return answer{}, nil, nil
			}
			return answer{}, other, nil
		}
		if tx.visible().there {
			return answer{}, nil, nil
		}
		tx.write(row{there: true, status: p.args[2].(string), life: s.newLife(), claimed: tx.began})
		return answer{1, strconv.Itoa(tx.xid)}, nil, nil
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

// other is the transaction in progress that has changed the row, if it is not tx.
func (s *server) other(tx *transaction) *transaction {
	if s.writer == tx {
		return nil
	}
	return s.writer
}

func (s *server) newLife() int { s.lastLife++; return s.lastLife }

func (tx *transaction) visible() row {
	if tx.on.writer == tx {
		return tx.row
	}
	return tx.on.row
}

func (tx *transaction) write(r row) {
	if tx.xid == 0 {
		tx.on.lastXID++
		tx.xid = tx.on.lastXID
	}
	r.xmin = tx.xid
	tx.row, tx.on.writer = r, tx
}

// state is what the statement of that name says of the row.
func (p *pending) state() answer {
	r := p.tx.visible()
	age := time.Duration(p.args[2].(int64)) * time.Microsecond
	switch {
	case !r.there:
		return answer{}
	case r.status == "COMPLETED":
		return answer{1, "completed"}
	case r.claimed.Before(p.tx.began.Add(-age)):
		return answer{1, "stale"}
	}
	return answer{1, "fresh"}
}

// prune takes rows that are completed, old enough, and that no transaction is changing.
func (p *pending) prune() answer {
	r := p.tx.visible()
	age := time.Duration(p.args[1].(int64)) * time.Microsecond
	onlyCompleted := strings.Contains(p.text, "'COMPLETED'")
	if p.tx.on.other(p.tx) != nil || !r.there || onlyCompleted && r.status != "COMPLETED" ||
		!r.claimed.Before(p.tx.began.Add(-age)) {
		return answer{}
	}
	p.tx.write(row{})
	p.tx.removes, p.tx.prunes = r.status == "COMPLETED", true
	return answer{rows: 1}
}

// change is an UPDATE to COMPLETED, or a DELETE, of a row that is PROCESSING. It finds the row as it was when the
// statement began, waits for who is changing it, and then looks at the row's latest version again (docs 13.2.1).
func (p *pending) change(first bool) (answer, *transaction, error) {
	r := p.tx.visible()
	if first {
		if p.life = r.life; !p.matches(r) {
			return answer{}, nil, nil
		}
	}
	if other := p.tx.on.other(p.tx); other != nil {
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
	p.tx.write(r)
	return answer{rows: 1}, nil, nil
}

func (p *pending) matches(r row) bool {
	mine := !strings.Contains(p.text, "xmin::text = $3") || p.args[2] == strconv.Itoa(r.xmin)
	return r.there && r.status == "PROCESSING" && mine
}

func (tx *transaction) commit() error {
	over := tx.over
	if !over {
		if s := tx.on; s.writer == tx {
			if tx.row.there && tx.row.status == "COMPLETED" {
				s.completed = append(s.completed, tx.row.life)
			}
			s.removed[s.row.life] = s.removed[s.row.life] || tx.removes
			s.young = s.young || tx.prunes && tx.began.Sub(s.row.claimed) < MinKeep
			s.row = tx.row
		}
		tx.on.effects += tx.effects
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
	if tx.on.writer == tx {
		tx.on.writer = nil
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
	if m.actor.stop(stepStatement, text) == outcomeCut {
		m.tx.end()
		return answer{}, errCut
	}
	p := pending{tx: m.tx, text: text, args: args}
	for {
		a, waits, err := p.try()
		if waits == nil {
			m.actor.note("%v %v", a, err)
			return a, err
		}
		m.actor.waits = waits
		cut := m.actor.stop(stepWait, text) == outcomeCut
		m.actor.waits = nil
		if cut {
			m.tx.end()
			return answer{}, errCut
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

// errCut is a connection that is lost.
var errCut = errors.New("the connection is lost")
