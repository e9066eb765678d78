package replication

import (
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

// mark is a place in the stream: how far into which transaction.
type mark struct {
	commit   lsn.LSN // of the transaction
	messages uint64  // of it
}

func (m mark) beyond(other mark) bool {
	return m.commit > other.commit || m.commit == other.commit && m.messages > other.messages
}

// advance is the progress of a series of streams. A stream that is broken within a transaction gets that transaction
// again from its beginning, so an open stream that receives rows may achieve nothing. Only rows that no earlier stream
// has received count, and positions that move.
type advance struct {
	furthest mark
	received lsn.LSN
	barren   int // streams in a row, up to now, that achieved nothing
}

// countStream counts a stream that has ended, and reports whether it achieved something. begun is the confirmed
// position when it began. A stream that reached the log's end as of its beginning had nothing to achieve.
func (a *advance) countStream(s *Stream, begun lsn.LSN) bool {
	received := s.Received()
	caughtUp := received >= s.identity.WALEnd && s.heard.Load() > 0 && time.Since(s.epoch) >= settled
	moved := s.cfg.Confirmed() > begun || s.at.beyond(a.furthest) ||
		received > max(a.received, s.identity.Start, s.identity.ConfirmedFlush)
	if s.at.beyond(a.furthest) {
		a.furthest = s.at
	}
	a.received = max(a.received, received)
	if moved || caughtUp {
		a.barren = 0
		return true
	}
	a.barren++
	return false
}
