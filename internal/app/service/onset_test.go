package service

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// TestOnset: a trouble keeps the time at which it was noticed, and has a new one after it was over. A command has the
// times that the connector reported, and none of its own.
func TestOnset(t *testing.T) {
	now := time.Unix(1000, 0)
	inside := onset{now: func() time.Time { return now }}
	lost := &slotmonitor.Slot{Name: "s", WALStatus: slotmonitor.WALLost}
	fine := &slotmonitor.Slot{Name: "s"}
	con := connector.Status{Slot: "s", State: relay.State{Name: relay.Streaming}}
	since := func(slot *slotmonitor.Slot, seen *onset) time.Time {
		st := withSlot(con, slot, nil, seen)
		require.Len(t, st.Waits, 1)
		return st.Waits[0].Since
	}
	began := now.UTC()
	require.Equal(t, began, since(lost, &inside))
	now = now.Add(time.Minute)
	require.Equal(t, began, since(lost, &inside))
	require.Equal(t, began, since(lost, toldOf([]fault.Wait{{Kind: waitSlotLost, Since: began}})))
	require.Zero(t, since(lost, new(onset)))
	require.Empty(t, withSlot(con, fine, nil, &inside).Waits)
	require.Equal(t, now.UTC(), since(lost, &inside), "it was over")
}
