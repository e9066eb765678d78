package offsets

import "time"

// Begin opens the transaction whose commit record lies at commit. Transactions come in the order of their commit
// records; after Resume the stream repeats the transactions after Confirmed.
func (t *Tracker) Begin(commit LSN, commitTime time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.stream
	if s.pass != passNone {
		return &StreamError{Broken: BrokenNesting, At: commit, Other: s.commit}
	}
	if commit == 0 || commit < s.floor {
		return &StreamError{Broken: BrokenOrder, At: commit, Other: s.floor}
	}
	if t.half && commit > t.last {
		return &StreamError{Broken: BrokenGap, At: commit, Other: t.last}
	}
	if s.cursor != none && t.ledger.slots[s.cursor].commit < commit {
		return &StreamError{Broken: BrokenGap, At: commit, Other: t.ledger.slots[s.cursor].commit}
	}
	return t.open(commit, commitTime)
}

func (t *Tracker) open(commit LSN, commitTime time.Time) error {
	s := &t.stream
	pass, known := passLive, uint32(0)
	switch {
	case commit < t.base, commit < t.Confirmed() && commit <= t.last:
		pass = passSettled
	case commit < t.Confirmed():
		// A keepalive said that nothing lies here, so nothing of it was handed out.
		pass = passRepeat
	case commit > t.last:
		if commit < t.lastEnd {
			return &StreamError{Broken: BrokenOrder, At: commit, Other: t.lastEnd}
		}
		t.last, t.half, t.slot, t.micros = commit, true, none, commitTime.UnixMicro()
	case s.cursor != none && t.ledger.slots[s.cursor].commit == commit:
		e := &t.ledger.slots[s.cursor]
		known = e.rows
		if e.closed {
			pass = passRepeat
		}
		s.cursor = e.next
	case t.half && commit == t.last:
		// It had begun and had no row yet: from here on like a first delivery.
	default:
		pass = t.folded()
	}
	s.pass, s.commit, s.index, s.known = pass, commit, 0, known
	return nil
}

// folded says how a repeated transaction without an entry counts. It folded into the entry before the cursor, because
// it was empty or because all of it was acknowledged; only an entry that took in rows leaves that open.
func (t *Tracker) folded() pass {
	before := t.ledger.tail
	if t.stream.cursor != none {
		before = t.ledger.slots[t.stream.cursor].prev
	}
	if before != none && t.ledger.slots[before].folded > 0 {
		return passSettled
	}
	return passRepeat
}

// Commit closes the open transaction. end is the Commit message's end LSN: exactly there, neither a byte before nor a
// byte after it, the next transaction's commit record can start.
func (t *Tracker) Commit(end LSN) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.stream
	switch {
	case s.pass == passNone:
		return &StreamError{Broken: BrokenNesting, At: end, Other: s.floor}
	case end <= s.commit:
		return &StreamError{Broken: BrokenOrder, At: end, Other: s.commit}
	case s.pass != passSettled && s.index < s.known:
		return &StreamError{Broken: BrokenRepeat, At: s.commit, Rows: s.index, Before: s.known}
	}
	if s.pass == passLive {
		t.close(end)
	}
	s.pass, s.floor = passNone, end
	return nil
}

// close ends the live transaction: it waits for its acks, or is done, or was empty.
func (t *Tracker) close(end LSN) {
	slot := t.slot
	t.half, t.slot, t.lastEnd = false, none, end
	switch {
	case slot != none:
		e := &t.ledger.slots[slot]
		e.closed, e.end = true, end
		if e.done() {
			t.early = early{set: true, micros: e.micros, rows: e.rows}
			t.removeDone(slot)
		}
	case t.ledger.tail != none:
		t.ledger.slots[t.ledger.tail].end = end
	default:
		t.confirm(end)
	}
}

// Observe takes a keepalive's WAL end. Postgres has sent every transaction that committed before it, so when none of
// them is open or outstanding there is nothing below that could be lost. At any other time it is not remembered: the
// next keepalive comes. Without it an idle outbox would pin the log of a busy cluster, since Postgres 15 and later
// send nothing for transactions without published rows.
func (t *Tracker) Observe(walEnd LSN) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.half || t.stream.pass != passNone || t.ledger.length > 0 || walEnd <= t.Confirmed() {
		return
	}
	t.confirm(walEnd)
	t.stream.floor = walEnd
}

// Resume says that the stream broke and the next message is the first of a new one, started at Confirmed or below.
// It repeats the transactions after that point; their rows come out of Add with the same positions, and rows handed out
// before are not fresh. Acks of their tickets count, before and after.
func (t *Tracker) Resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stream = stream{cursor: t.ledger.head}
}

// Rewind forgets everything outstanding and starts a new session at confirmed: for a log with another history (another
// timeline or system identifier) or for rows that were given up. Rows after confirmed come out of Add fresh, even rows
// already handed out, and acks of earlier tickets no longer count. No stream may be open: a status update sent during
// Rewind could carry a position of one history to the other.
func (t *Tracker) Rewind(confirmed LSN) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.session++
	if t.session == 0 {
		t.session = 1
	}
	t.ledger.clear()
	t.base, t.rows, t.total = confirmed, 0, 0
	t.last, t.lastEnd, t.half, t.slot = 0, 0, false, none
	t.stream = stream{cursor: none}
	t.confirmed.Store(uint64(confirmed))
}
