package walsender

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// polledTable is the outbox table as source: polling sees it: rows with a sequence and a mark, and a lock for each
// lane. The server's lock protects it.
type polledTable struct {
	rows   []*polledRow
	serial int              // of the sequence
	begun  int              // transactions of relays
	held   map[int]*session // by lane: whose transaction has the lock
}

type polledRow struct {
	Row
	seq     int
	version int // an UPDATE by an operator makes another one, at another address
	marked  bool
}

const (
	lanes  = 64
	frozen = 10 * time.Second // idle_in_transaction_session_timeout, as the relay sets it for its transactions
)

func newPolledTable() *polledTable { return &polledTable{held: map[int]*session{}} }

// lane is a row's. Which one does not matter, as long as the rows of a key have the same.
func (r *polledRow) lane() int {
	n := 0
	for _, c := range []byte(r.Key) {
		n = n*31 + int(c)
	}
	return n % lanes
}

func (r *polledRow) address() string { return fmt.Sprintf("(%d,%d)", r.seq, r.version) }

// reserve takes numbers of the sequence for rows that a transaction inserts.
func (t *polledTable) reserve(rows []Row) (inserted []*polledRow) {
	for _, row := range rows {
		t.serial++
		inserted = append(inserted, &polledRow{Row: row, seq: t.serial, version: 1})
	}
	return inserted
}

// commit makes rows visible, in the order of the sequence.
func (t *polledTable) commit(inserted []*polledRow) {
	t.rows = append(t.rows, inserted...)
	slices.SortFunc(t.rows, func(a, b *polledRow) int { return cmp.Compare(a.seq, b.seq) })
}

// unpublished lists the first rows of a lane, up to limit.
func (t *polledTable) unpublished(lane, limit int) (rows []*polledRow) {
	for _, r := range t.rows {
		if !r.marked && r.lane() == lane {
			if rows = append(rows, r); len(rows) == limit {
				break
			}
		}
	}
	return rows
}

// Insert begins a transaction with rows, and returns its commit. So rows with higher numbers may be
// committed before.
func (s *Server) Insert(rows []Row) (commit func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up {
		return func() {}
	}
	inserted, life := s.polled.reserve(rows), s.lives
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.up && s.lives == life {
			s.polled.commit(inserted)
			s.append(rows)
		}
	}
}

// unmarked counts the rows that are not marked as published.
func (t *polledTable) unmarked() (n int) {
	for _, r := range t.rows {
		if !r.marked {
			n++
		}
	}
	return n
}

// Unmarked is how many rows are not marked as published.
func (s *Server) Unmarked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.polled.unmarked()
}

// polledTxn is the transaction of a session that polls.
type polledTxn struct {
	number int
	lanes  map[int]bool // whose locks it has
	marks  []*polledRow
	idle   *time.Timer
}

// begin is called with the server's lock held, as the others are.
func (c *session) begin() {
	if c.txn == nil {
		c.server.polled.begun++
		c.txn = &polledTxn{number: c.server.polled.begun, lanes: map[int]bool{}}
	}
}

// lock is pg_try_advisory_xact_lock of a lane.
func (c *session) lock(lane int) bool {
	if !c.take(lane) {
		return false
	}
	c.txn.lanes[lane] = true
	return true
}

// take takes a lane's lock, unless another session has it.
func (c *session) take(lane int) bool {
	t := c.server.polled
	if t.held[lane] == nil {
		t.held[lane] = c
	}
	return t.held[lane] == c
}

// keep is pg_try_advisory_lock of lanes, the session's own.
func (c *session) keep(lanes []int) {
	c.kept = map[int]bool{}
	for _, lane := range lanes {
		if c.take(lane) {
			c.kept[lane] = true
		}
	}
}

// letGo is pg_advisory_unlock of the same lanes.
func (c *session) letGo() {
	kept := c.kept
	c.kept = nil
	for lane := range kept {
		c.release(lane)
	}
}

// release frees a lane that neither the transaction nor the session has any more.
func (c *session) release(lane int) {
	if !c.kept[lane] && (c.txn == nil || !c.txn.lanes[lane]) {
		delete(c.server.polled.held, lane)
	}
}

// mark notes the rows of these numbers at these addresses, which are marked with the commit.
func (c *session) mark(numbers, addresses []string) (n int) {
	for i, number := range numbers {
		seq, _ := strconv.Atoi(number)
		for _, r := range c.server.polled.rows {
			if r.seq == seq && !r.marked && r.address() == addresses[i] {
				c.txn.marks = append(c.txn.marks, r)
				n++
			}
		}
	}
	return n
}

// finish ends the transaction, if there is one. It returns the rows that are marked now.
func (c *session) finish(commit bool) (marked []*polledRow) {
	if c.txn == nil {
		return nil
	}
	txn := c.txn
	c.txn = nil
	for lane := range txn.lanes {
		c.release(lane)
	}
	if !commit {
		return nil
	}
	for _, r := range txn.marks {
		if !r.marked {
			r.marked = true
			marked = append(marked, r)
		}
	}
	return marked
}

// rest lets the server end a session that stays in its transaction for too long.
func (c *session) rest() {
	t := c.txn
	if t == nil {
		return
	}
	t.idle = time.AfterFunc(frozen, func() {
		c.end(fatal("25P03", "terminating connection due to idle-in-transaction timeout"))
	})
}
