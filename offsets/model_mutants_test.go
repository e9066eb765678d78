package offsets

// mutant is a wrong rule the model must refute; each has lost rows in a published connector.
type mutant uint8

const (
	faithful mutant = iota
	faithfulRewinding
	confirmOnReceive
	confirmOnCommit
	confirmHighestAck
	zeroFlush
	keepaliveOutstanding
	keepaliveHalf
	startAtEnd
	countOldAcks
	produceRepeats
	onePast
	ackOnError
	deafToKeepalives
	mutants
)

// mutantRules says what each does, and which promise it breaks.
var mutantRules = [...]struct{ does, breaks string }{
	faithful:             {"without rewinds", ""},
	faithfulRewinding:    {"with rewinds", ""},
	confirmOnReceive:     {"confirm what was received", "loss"},
	confirmOnCommit:      {"confirm at the Commit message", "loss"},
	confirmHighestAck:    {"confirm the highest acknowledged transaction", "loss"},
	zeroFlush:            {"report 0 until the first ack", "loss"},
	keepaliveOutstanding: {"take a keepalive's WAL end while rows are outstanding", "loss"},
	keepaliveHalf:        {"take a keepalive's WAL end inside a transaction", "loss"},
	startAtEnd:           {"start at the WAL end of IDENTIFY_SYSTEM", "loss"},
	countOldAcks:         {"count acks of the session before a rewind", "loss"},
	produceRepeats:       {"produce repeated rows again after a resume", "duplicate"},
	onePast:              {"confirm one past the end LSN", "loss"},
	ackOnError:           {"count a failed produce as acknowledged", "loss"},
	deafToKeepalives:     {"ignore keepalives", "liveness"},
}

func (m mutant) String() string { return mutantRules[m].does }

func (m mutant) rewinds() bool { return m == faithfulRewinding || m == countOldAcks }

// flush is the position the connector reports.
func (w *world) flush() LSN {
	confirmed := w.tracker.Confirmed()
	switch w.mutant {
	case confirmOnReceive:
		return max(confirmed, w.received)
	case zeroFlush:
		// pglogrepl's SendStandbyStatusUpdate replaces a zero flush position by the write position.
		if confirmed == w.tracker.base {
			return w.received
		}
	case confirmOnCommit, confirmHighestAck, keepaliveOutstanding, keepaliveHalf:
		return max(confirmed, w.cheat)
	case onePast:
		if confirmed > w.tracker.base && confirmed < w.sc.end {
			return confirmed + 1
		}
	}
	return confirmed
}

// from is the position the connector asks to start at.
func (w *world) from() LSN {
	if w.mutant == startAtEnd {
		return w.sc.end
	}
	return w.flush()
}

// keepalive hands a WAL end to the tracker.
func (w *world) keepalive(walEnd LSN) {
	state := w.tracker.Snapshot()
	switch {
	case w.mutant == deafToKeepalives:
		return
	case w.mutant == keepaliveOutstanding && state.Open == 0, w.mutant == keepaliveHalf && state.Outstanding == 0:
		w.cheat = max(w.cheat, walEnd)
	}
	w.tracker.Observe(walEnd)
}

// acked lets a mutant see an acknowledgement.
func (w *world) acked(f flight) {
	if w.mutant != confirmHighestAck {
		return
	}
	for _, it := range w.sc.items {
		if it.tx == w.sc.rows[f.row].tx && w.received >= it.end {
			w.cheat = max(w.cheat, it.end)
		}
	}
}

// ticket is the ticket as it comes back from the producer.
func (w *world) ticket(f flight) Ticket {
	if w.mutant == countOldAcks {
		for slot := w.tracker.ledger.head; slot != none; slot = w.tracker.ledger.slots[slot].next {
			if slot == uint32(f.ticket) {
				return Ticket(w.tracker.session)<<48 | Ticket(w.tracker.ledger.slots[slot].generation)<<32 |
					Ticket(slot)
			}
		}
	}
	return f.ticket
}

// excuse drops the tracker's complaint where a mutant would not have listened to it.
func (m mutant) excuse(err error) error {
	if m == countOldAcks {
		return nil
	}
	return err
}
