package service

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// TestAMistypedSlotIsGuessed by status, in the error and in the cause.
func TestAMistypedSlotIsGuessed(t *testing.T) {
	st, err := noSlot(connector.Status{Slot: "orderz", State: relay.State{Name: notRunning}}, "orders")
	_, remedy := fault.Split(err)
	want := fault.Do("Did you mean orders? Then set postgres.slot.", "cdc-outbox status --postgres-slot orders")
	require.Equal(t, want, remedy)
	require.Equal(t, waitSlotMissing, st.Cause.Code)
	require.Equal(t, want, st.Cause.Remedy())
	st, err = noSlot(connector.Status{Slot: "orderz"}, "")
	_, remedy = fault.Split(err)
	require.Contains(t, remedy.Commands, "cdc-outbox setup")
	require.Contains(t, st.Cause.Next, "cdc-outbox check")
}
