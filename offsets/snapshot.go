package offsets

import "time"

// Outstanding returns how many rows were handed out and not acknowledged, and the commit time of the oldest
// unconfirmed transaction with rows. ok is false when there is no such transaction. rows can be 0 with ok: the
// transaction is acknowledged as far as it was received.
func (t *Tracker) Outstanding() (rows int, oldest time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ledger.head == none {
		return 0, time.Time{}, false
	}
	return int(t.rows), time.UnixMicro(t.ledger.slots[t.ledger.head].micros), true
}

// Oldest names the oldest unconfirmed transaction with rows, 0 when there is none, and how many of its rows are
// acknowledged. While rows wait, it does not change for exactly as long as Confirmed is held back by a row that Kafka
// does not take, whatever happens to later rows.
func (t *Tracker) Oldest() (commit LSN, acked uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ledger.head == none {
		return 0, 0
	}
	e := &t.ledger.slots[t.ledger.head]
	return e.commit, e.rows - e.outstanding
}

// Unconfirmed returns how many rows were handed out and are not confirmed, acknowledged or not: the rows that a crash
// now would send again. After one row that Kafka does not take, their number grows past the window.
func (t *Tracker) Unconfirmed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.total)
}

// Open reports whether a transaction is open: begun and not committed, on this stream or on one that broke.
func (t *Tracker) Open() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.half || t.stream.pass != passNone
}

// Snapshot is the tracker's state at one moment, for status pages.
type Snapshot struct {
	Session      uint16
	Confirmed    LSN
	Open         LSN      // commit LSN of the open transaction, 0 when none is; half received before a Resume counts
	OpenRows     uint32   // rows of it handed out
	Next         Position // of the next row of the open transaction; zero when none is open on this stream
	Last         LSN      // highest commit LSN begun in this session, 0 before the first
	Transactions int      // unconfirmed transactions kept one by one; acknowledged ones fold into the entry before
	Outstanding  int      // rows handed out and not acknowledged
	Unconfirmed  int      // rows handed out and not confirmed
}

// Snapshot returns the state. It costs a lock and allocates nothing.
func (t *Tracker) Snapshot() Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Snapshot{
		Session:      t.session,
		Confirmed:    t.Confirmed(),
		Last:         t.last,
		Transactions: t.ledger.length,
		Outstanding:  int(t.rows),
		Unconfirmed:  int(t.total),
	}
	if t.stream.pass != passNone {
		s.Open, s.OpenRows = t.stream.commit, t.stream.known
		s.Next = Position{Commit: t.stream.commit, Index: t.stream.index}
	} else if t.half {
		s.Open = t.last
		if t.slot != none {
			s.OpenRows = t.ledger.slots[t.slot].rows
		}
	}
	return s
}
