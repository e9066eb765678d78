package diagnose

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// TestStartTheConnectorRatherThanDropItsSlot: the events that the slot holds would go with it.
//
// Bug (stream): `status` offered to drop the connector's own slot when the connector had ended. Cost: the events that
// the slot holds, if an operator followed it.
func TestStartTheConnectorRatherThanDropItsSlot(t *testing.T) {
	unread := &slotmonitor.Slot{Cause: alert.Cause{
		Code: slotmonitor.CauseNoConsumer, Sentence: "No session has read the slot.",
		Next: "Drop it.", Commands: []string{"SELECT pg_drop_replication_slot('s');"},
	}}
	c := Cause(relay.Account{State: relay.State{Name: relay.NotRunning}}, unread, time.Now())
	require.Equal(t, []string{"cdc-outbox run"}, c.Commands)
	require.NotContains(t, c.Next, "rop")
}
