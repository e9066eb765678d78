package offsets

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Ticket stands for one row until Kafka has acknowledged it: the session in the high 16 bits, the transaction in the
// low 48 (the use count of a slot, 16 bits, and the slot, 32). All rows of a transaction share one. An alias, so that
// the producer can carry it without importing this package. 0 means no ticket.
type Ticket = uint64

// Tracker computes the one number the slot's position follows: the end LSN up to which every transaction has been
// received to its commit and every row of them acknowledged. See the package comment for the caller's duties.
//
// Begin, Add, Commit, Observe, Resume and Rewind belong to the goroutine that reads the stream; Ack, Confirmed,
// Outstanding, Oldest, Open, Unconfirmed and Snapshot may be called from any.
type Tracker struct {
	confirmed atomic.Uint64 // written under mu

	mu      sync.Mutex
	session uint16 // never 0
	base    LSN    // the confirmed position when the session began
	ledger  ledger
	rows    uint64 // handed out and not acknowledged
	total   uint64 // handed out and not confirmed
	last    LSN    // highest commit LSN begun in this session
	lastEnd LSN    // highest end LSN committed in this session
	half    bool   // the transaction at last began and has not been committed, on this stream or an earlier one
	slot    uint32 // its entry; none while it has no row
	micros  int64  // its commit time
	early   early
	stream  stream
}

// stream is the state that Resume resets.
type stream struct {
	pass   pass
	commit LSN    // of the open transaction
	index  uint32 // rows of it seen in this pass
	known  uint32 // rows of it handed out in passes before; for a live one, all handed out
	floor  LSN    // the next transaction's commit record cannot lie below
	cursor uint32 // the first entry this stream has yet to repeat; none when there is nothing left to repeat
}

// pass is the kind of delivery of an open transaction.
type pass uint8

const (
	passNone    pass = iota // none is open
	passLive                // first delivery, or the rest of one that a broken stream cut short
	passRepeat              // received before, with a row count that is known
	passSettled             // acknowledged before; its row count is forgotten
)

// early remembers a transaction whose rows were all acknowledged before its Commit came. There is at most one that
// no Ack has reported yet: the next one needs an Ack of its own first. (With acks that report nothing, the last one.)
type early struct {
	set    bool
	micros int64
	rows   uint32
}

// NewTracker starts at confirmed, the slot's confirmed_flush_lsn: everything below it was acknowledged in an earlier
// life. It must not be 0: no status update may report 0, and no stream can start there.
func NewTracker(confirmed LSN) *Tracker {
	t := &Tracker{ledger: newLedger()}
	t.Rewind(confirmed)
	return t
}

// Confirmed returns the position to report as flushed and to start the next stream at. It never falls within a
// session, and it is the session's first value, the end LSN of a commit, or a position given to Observe.
func (t *Tracker) Confirmed() LSN { return LSN(t.confirmed.Load()) }

// confirm moves Confirmed. Every caller's value lies above it; the check is the promise in one line.
func (t *Tracker) confirm(to LSN) {
	if to > t.Confirmed() {
		t.confirmed.Store(uint64(to))
	}
}

// Add counts the next row of the open transaction. With fresh, the caller owes exactly one Ack of the ticket. Without,
// the row was handed out before a Resume (it is acknowledged, or will be under the ticket given then): it must not be
// produced again, and the ticket is 0.
func (t *Tracker) Add() (pos Position, ticket Ticket, fresh bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.stream
	pos = Position{Commit: s.commit, Index: s.index}
	switch {
	case s.pass == passNone:
		return Position{}, 0, false, &StreamError{Broken: BrokenNesting, Other: s.floor}
	case s.index == math.MaxUint32:
		return Position{}, 0, false, &StreamError{Broken: BrokenLimit, At: s.commit}
	case s.pass == passSettled || s.index < s.known:
		s.index++
		return pos, 0, false, nil
	case s.pass == passRepeat:
		return Position{}, 0, false, &StreamError{
			Broken: BrokenRepeat, At: s.commit, Rows: s.index + 1, Before: s.known,
		}
	}
	if t.slot == none {
		t.slot = t.ledger.push(s.commit, t.micros)
	}
	e := &t.ledger.slots[t.slot]
	e.rows++
	e.outstanding++
	t.rows++
	t.total++
	s.index++
	s.known = s.index
	return pos, Ticket(t.session)<<48 | Ticket(e.generation)<<32 | Ticket(t.slot), true, nil
}

// TakeBack takes back the row that the last call of Add has handed out: it was not produced, and its ticket is not
// acknowledged. It is fresh when a stream repeats it. It may be called once, before any other call that moves the
// tracker but Ack of other rows, and not when that Add handed out none.
func (t *Tracker) TakeBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.stream
	if s.pass != passLive || t.slot == none || s.index == 0 {
		return
	}
	e := &t.ledger.slots[t.slot]
	e.rows--
	e.outstanding--
	t.rows--
	t.total--
	s.index--
	s.known = s.index
	if e.rows == 0 {
		t.ledger.remove(t.slot)
		t.slot = none
	}
}

// Last returns the transaction that began last in this session, on whichever stream; 0 for none.
func (t *Tracker) Last() (commit LSN, commitTime time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last, time.UnixMicro(t.micros)
}

// Ack acknowledges one row per ticket, in any order; runs of equal tickets are the cheap case. Tickets of earlier
// sessions are ignored.
//
// finished, which may be nil, is called once for each transaction that is received to its commit and acknowledged to
// its last row, when that becomes true and so not always in commit order. A transaction acknowledged before its Commit
// came is reported by the next Ack that has a finished, also by one without tickets. finished runs under the tracker's
// lock: it must be short and must not call the tracker.
//
// The error is an *AckError, after everything that could be counted was.
func (t *Tracker) Ack(tickets []Ticket, finished func(commitTime time.Time, rows int)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.early.set && finished != nil {
		t.early.set = false
		report(finished, t.early.micros, t.early.rows)
	}
	var extra int
	var first Ticket
	for len(tickets) > 0 {
		ticket, n := tickets[0], 1
		for n < len(tickets) && tickets[n] == ticket {
			n++
		}
		tickets = tickets[n:]
		if uint16(ticket>>48) != t.session {
			continue
		}
		if more := t.ack(ticket, n, finished); more > 0 {
			if extra == 0 {
				first = ticket
			}
			extra += more
		}
	}
	if extra > 0 {
		return &AckError{Tickets: extra, First: first, Confirmed: t.Confirmed()}
	}
	return nil
}

// ack counts n acks of one ticket and returns how many of them had nothing to acknowledge.
func (t *Tracker) ack(ticket Ticket, n int, finished func(time.Time, int)) (extra int) {
	e := t.ledger.lookup(ticket)
	if e == nil {
		return n
	}
	if have := int(e.outstanding); n > have {
		n, extra = have, n-have
	}
	e.outstanding -= uint32(n)
	t.rows -= uint64(n)
	if n > 0 && e.done() {
		report(finished, e.micros, e.rows)
		t.removeDone(uint32(ticket))
	}
	return extra
}

func report(finished func(time.Time, int), micros int64, rows uint32) {
	if finished != nil {
		finished(time.UnixMicro(micros), int(rows))
	}
}

// removeDone removes a done entry: the oldest entry moves Confirmed, any other folds into the entry before it. So no
// entry after the oldest is ever done, and one step is enough.
func (t *Tracker) removeDone(slot uint32) {
	e := &t.ledger.slots[slot]
	if e.prev == none {
		t.confirm(e.end)
		t.total -= uint64(e.rows) + e.folded
	} else {
		before := &t.ledger.slots[e.prev]
		before.end = e.end
		before.folded += uint64(e.rows) + e.folded
	}
	if t.stream.cursor == slot {
		t.stream.cursor = e.next
	}
	t.ledger.remove(slot)
}
