package service

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// One fault has one sentence and one list of commands: in the cause, among the waits, and of the slot. A connector's
// own slot is never offered for dropping, however the monitor, which knows nothing of its purpose, would end it.
//
// Bug (monitor): `/status` offered a connector's own slot for dropping; a refused password read as a server that does
// not answer. Cost: lost events; the wrong search.
func TestEachFaultReadsTheSameInEveryView(t *testing.T) {
	limit, safe := int64(64<<20), int64(-1<<20)
	refused := (&fault.Error{
		Kind: fault.Operator, Object: "postgres db:5432", Err: errors.New("password authentication failed"),
	}).With(fault.Do("Set the password.", `\password "it"`))
	drop := alert.Cause{Code: slotmonitor.CauseNoConsumer, Commands: []string{"SELECT pg_drop_replication_slot('s');"}}
	lost := drop
	lost.Code = slotmonitor.CauseLost
	for name, c := range map[string]struct {
		state    relay.StateName
		slot     *slotmonitor.Slot
		err      error
		code     string
		sentence string
		commands []string
	}{
		"wrong password": {
			relay.NotRunning, nil, refused, "postgres_unreachable", "postgres db:5432: password authentication failed.",
			[]string{`\password "it"`},
		},
		"lost": {
			relay.NotRunning, &slotmonitor.Slot{Name: "s", WALStatus: slotmonitor.WALLost, Cause: lost}, nil,
			"slot_lost",
			`slot "s": the server has removed what the slot needs; it can never be read again.`,
			[]string{"cdc-outbox slot recreate --yes-lose-events", "cdc-outbox repair"},
		},
		"not running": {
			relay.NotRunning, &slotmonitor.Slot{Name: "s", Cause: drop}, nil, "no_consumer", "",
			[]string{"cdc-outbox run"},
		},
		"runs out": {
			relay.NotRunning, &slotmonitor.Slot{
				Name: "s", WALStatus: slotmonitor.WALUnreserved, LimitBytes: &limit, SafeBytes: &safe, Cause: drop,
			}, nil, "no_consumer", "",
			[]string{
				"ALTER SYSTEM SET max_slot_wal_keep_size = '1GB';", "SELECT pg_reload_conf();", "cdc-outbox run",
			},
		},
	} {
		var con connector.Status
		con.Slot, con.State = "s", relay.State{Name: c.state, Since: time.Now()}
		st := withSlot(con, c.slot, c.err, new(onset))
		require.Equal(t, c.code, st.Cause.Code, name)
		require.Equal(t, c.sentence, st.Cause.Sentence, name)
		require.Equal(t, c.commands, st.Cause.Commands, name)
		for _, w := range st.Waits {
			require.Equal(t, c.sentence, w.Sentence()+".", name)
			require.Equal(t, c.commands, w.Commands, name)
		}
		if c.slot != nil {
			require.Equal(t, st.Cause, st.ReplicationSlot.Cause, name)
		}
	}
}
