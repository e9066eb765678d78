package standbys

import "github.com/cdc-outbox/cdc-outbox/internal/base/lsn"

// horizon is what is known to be on enough standbys: every commit record that begins before it.
type horizon struct {
	at      lsn.LSN
	pending []lsn.LSN // insert positions that were reported, ascending; the standbys have not reached them
}

// maxPending bounds pending. Positions are dropped from its end, so that it always moves on.
const maxPending = 64

// see takes an insert position, which is the end of a record, and how far the standbys are.
func (h *horizon) see(inserted, flushed lsn.LSN) {
	if n := len(h.pending); n < maxPending && (n == 0 || h.pending[n-1] < inserted) {
		h.pending = append(h.pending, inserted)
	}
	reached := 0
	for reached < len(h.pending) && h.pending[reached] <= flushed {
		h.at = max(h.at, h.pending[reached])
		reached++
	}
	h.pending = append(h.pending[:0], h.pending[reached:]...)
}
