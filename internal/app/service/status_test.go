package service

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// The server sees a slot at rest where the connector waits for a broker; the two causes in one document must not
// contradict.
//
// Bug (monitor): With a broker away, `/status` reported that the slot waits for nothing. Cost: two causes that
// contradict each other.
func TestStatusTellsOneCause(t *testing.T) {
	slot := &slotmonitor.Slot{
		Name: "s", Active: true, UnconfirmedBytes: 315584,
		Cause: alert.Cause{Code: slotmonitor.CauseIdle, Sentence: "Nothing waits."},
	}
	var con connector.Status
	con.State.Name = relay.Streaming
	con.Waits = []fault.Wait{
		{Kind: "broker_unreachable", Object: "broker b:9092", Reason: "connection refused", Since: time.Now()},
	}
	st := withSlot(con, slot, nil, new(onset))
	require.Equal(t, "broker_unreachable", st.Cause.Code)
	require.Equal(t, st.Cause, st.ReplicationSlot.Cause)
	require.Equal(t, slotmonitor.CauseIdle, slot.Cause.Code, "the monitor's own is left as it is")

	held := *slot
	held.Cause = alert.Cause{Code: slotmonitor.CauseOpenTransaction, Sentence: "Held back."}
	require.Equal(t, held.Cause, withSlot(con, &held, nil, new(onset)).ReplicationSlot.Cause,
		"what only the server knows stays")

	behind := *slot
	behind.Cause = alert.Cause{Code: slotmonitor.CauseReader, Sentence: "Its reader has 315 KiB left to confirm."}
	require.Equal(t, st.Cause, withSlot(con, &behind, nil, new(onset)).ReplicationSlot.Cause,
		"the reader knows why it is behind")
}
