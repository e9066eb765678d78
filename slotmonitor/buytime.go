package slotmonitor

import (
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// RunsOut reports whether the slot is about to be lost.
func (s *Slot) RunsOut() bool {
	return postgres.RunsOut(s.WALStatus, s.SafeBytes, s.LimitBytes)
}

// BuyTime puts in front of a cause's remedy what keeps the slot until the cause is fixed. Any other cause leaves the
// slot as it is.
func (s *Slot) BuyTime(c alert.Cause) alert.Cause {
	if !s.RunsOut() {
		return c
	}
	limit := int64(0)
	if s.LimitBytes != nil {
		limit = *s.LimitBytes
	}
	more := s.service.BuyTime(s.RetainedBytes, limit)
	if len(more.Commands) > 0 && slices.Contains(c.Commands, more.Commands[0]) {
		return c // it is there already
	}
	if c.Next != "" {
		more.Next += " Then: " + c.Next
	}
	c.Next, c.Commands = more.Next, slices.Concat(more.Commands, c.Commands)
	return c
}
