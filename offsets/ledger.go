package offsets

// none marks the absence of an entry.
const none = ^uint32(0)

// entry is one unconfirmed transaction with rows. It holds no pointers, so that a long list costs the garbage
// collector nothing.
type entry struct {
	commit LSN
	// Confirmed once this entry is done: its own end LSN, or that of the last transaction folded into it
	end         LSN
	micros      int64  // commit time, Unix microseconds, the resolution of Postgres
	folded      uint64 // rows of acknowledged transactions folded into this entry
	rows        uint32 // rows handed out
	outstanding uint32 // of these, not acknowledged
	prev, next  uint32
	generation  uint16 // counts the slot's uses, so that a ticket outlives its entry without naming another
	closed      bool   // its Commit was received
}

func (e *entry) done() bool { return e.closed && e.outstanding == 0 }

// ledger keeps the entries in commit order, in a slab of slots linked both ways. Tickets carry slot numbers.
//
// Not a ring: after one row that Kafka does not take, later transactions on other partitions are still acknowledged for
// as long as that lasts, and a ring would keep each of them. Here an acknowledged transaction folds into the
// transaction before it, so there are never more entries than transactions with an unacknowledged row, plus the open
// transaction.
type ledger struct {
	slots      []entry
	free       uint32 // first free slot, linked by next
	head, tail uint32
	length     int
}

func newLedger() ledger { return ledger{free: none, head: none, tail: none} }

// push appends an entry and returns its slot. It allocates only when there are more entries than ever before.
func (l *ledger) push(commit LSN, micros int64) uint32 {
	slot := l.free
	if slot == none {
		slot = uint32(len(l.slots))
		l.slots = append(l.slots, entry{})
	} else {
		l.free = l.slots[slot].next
	}
	l.slots[slot] = entry{
		commit: commit, micros: micros, prev: l.tail, next: none, generation: l.slots[slot].generation,
	}
	if l.tail == none {
		l.head = slot
	} else {
		l.slots[l.tail].next = slot
	}
	l.tail = slot
	l.length++
	return slot
}

// remove takes the entry out of the list; its slot may be used again.
func (l *ledger) remove(slot uint32) {
	e := &l.slots[slot]
	if e.prev == none {
		l.head = e.next
	} else {
		l.slots[e.prev].next = e.next
	}
	if e.next == none {
		l.tail = e.prev
	} else {
		l.slots[e.next].prev = e.prev
	}
	l.length--
	e.generation++
	e.next, l.free = l.free, slot
}

// lookup returns the entry a ticket names, nil when it was removed or never existed.
func (l *ledger) lookup(ticket Ticket) *entry {
	slot := uint32(ticket)
	if int64(slot) >= int64(len(l.slots)) {
		return nil
	}
	e := &l.slots[slot]
	if e.generation != uint16(ticket>>32) {
		return nil
	}
	return e
}

// clear empties the list and keeps the memory.
func (l *ledger) clear() {
	for l.head != none {
		l.remove(l.head)
	}
}
