package slotmonitor

import (
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
)

// RunsOut reports whether the slot is about to be lost: it is beyond max_slot_wal_keep_size, or little of it is left.
func (s *Slot) RunsOut() bool {
	switch s.WALStatus {
	case WALUnreserved:
		return true
	case WALExtended:
		return s.LimitBytes != nil && s.SafeBytes != nil && *s.SafeBytes < *s.LimitBytes/4
	}
	return false
}

// BuyTime puts in front of a cause's remedy what keeps the slot until the cause is fixed. Any other cause leaves the
// slot as it is.
func (s *Slot) BuyTime(c alert.Cause) alert.Cause {
	if !s.RunsOut() {
		return c
	}
	const gigabyte = 1 << 30
	limit := s.RetainedBytes
	if s.LimitBytes != nil {
		limit = max(limit, *s.LimitBytes)
	}
	more := s.service.LimitWAL((2*limit + gigabyte - 1) / gigabyte * 1024)
	if len(more.Commands) > 0 && slices.Contains(c.Commands, more.Commands[0]) {
		return c // it is there already
	}
	next := "First buy time, while the disk has room: the slot is about to be lost. " + more.Next
	if c.Next != "" {
		next += " Then: " + c.Next
	}
	c.Next, c.Commands = next, slices.Concat(more.Commands, c.Commands)
	return c
}
