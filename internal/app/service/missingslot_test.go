package service

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/statetables"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestAMistypedSlotIsGuessed by status, in the error and in the cause.
//
// Bug (monitor): `status` and `check` took a mistyped slot for one that was dropped, or for a new one. Cost: a search
// for a restored server; a second slot. Also: `TestAMistypedSlotIsGuessedByCheck` in `internal/postgres/setup`.
func TestAMistypedSlotIsGuessed(t *testing.T) {
	st, err := noSlot(connector.Status{Slot: "orderz", State: relay.State{Name: notRunning}},
		missing{near: "orders"}, new(onset))
	_, remedy := fault.Split(err)
	want := fault.Do("Did you mean orders? Then set postgres.slot.", "cdc-outbox status --postgres-slot orders")
	require.Equal(t, want, remedy)
	require.Equal(t, waitSlotMissing, st.Cause.Code)
	require.Equal(t, want, st.Cause.Remedy())
	require.Nil(t, st.Cause.Since, "a command does not know")
	st, err = noSlot(connector.Status{Slot: "orderz"}, missing{}, new(onset))
	_, remedy = fault.Split(err)
	require.Equal(t, []string{"cdc-outbox check", "cdc-outbox setup"}, remedy.Commands)
	require.Equal(t, remedy, st.Cause.Remedy())
}

// TestADroppedSlotIsNotMistyped: what is offered in place of a slot is another relay's, so it is offered neither where
// the checkpoint knows the slot nor from another database.
//
// Bug (setup): With two relays in one database, `status`, `slot` and `check` took a dropped slot for a mistyped one and
// offered the other relay's slot. Cost: the other relay's events, confirmed and never published, if an operator
// followed it. Also: `TestADroppedSlotIsNotMistyped` in `internal/postgres/setup`.
func TestADroppedSlotIsNotMistyped(t *testing.T) {
	db := testkit.Postgres(t)
	db.Exec(t, fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput')", db.Slot))
	status := func(dsn string) fault.Remedy {
		c, err := config.Load(config.Options{Settings: map[string]string{
			"postgres.dsn": dsn, "postgres.slot": db.Slot + "x", "http.listen": "127.0.0.1:1",
		}})
		require.NoError(t, err)
		_, _, err = Look(t.Context(), c)
		_, remedy := fault.Split(err)
		return remedy
	}
	require.Contains(t, status(db.DSN).Next, "Did you mean "+db.Slot)
	require.Contains(t, status(testkit.Postgres(t).DSN).Next, "If it existed before")
	db.Exec(t, statetables.CheckpointDDL(identifier.Table{Schema: "public", Name: "cdc_outbox_slots"}))
	db.Exec(t, fmt.Sprintf(`INSERT INTO cdc_outbox_slots (slot, system_id, timeline, position)
		VALUES ('%sx', '', 0, '0/0')`, db.Slot))
	require.Equal(t, []string{"cdc-outbox slot recreate --yes-lose-events", "cdc-outbox repair"},
		status(db.DSN).Commands)
}

// TestNoCheckpointNoMoment: a slot without a checkpoint was not confirmed in the year 1.
//
// Bug (monitor): Without the checkpoint's table `status` showed the year 1 as the last confirmation. Cost: a moment
// that is not true.
func TestNoCheckpointNoMoment(t *testing.T) {
	db := testkit.Postgres(t)
	db.Exec(t, fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput')", db.Slot))
	c, err := config.Load(config.Options{Settings: map[string]string{
		"postgres.dsn": db.DSN, "postgres.slot": db.Slot, "http.listen": "127.0.0.1:1",
	}})
	require.NoError(t, err)
	st, _, err := Look(t.Context(), c)
	require.NoError(t, err)
	require.Nil(t, st.LastConfirmed)
	require.NotContains(t, st.Cause.Sentence, "confirmed at")
}
