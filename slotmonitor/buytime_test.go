package slotmonitor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/cloud"
)

// TestASlotThatRunsOutBuysTimeFirst: the cause may take longer to fix than the slot has.
//
// Bug (monitor): The alert about a slot beyond `max_slot_wal_keep_size` said nothing about raising the limit. Cost: a
// slot that is lost while its cause is looked for.
func TestASlotThatRunsOutBuysTimeFirst(t *testing.T) {
	limit, safe := int64(64<<20), int64(-20<<20)
	s := Slot{
		Name: "s", WALStatus: WALUnreserved, LimitBytes: &limit, SafeBytes: &safe, RetainedBytes: 3 << 30, Active: true,
		UnconfirmedBytes: 3 << 30,
	}
	c := s.BuyTime(alert.Cause{Code: "broker_unreachable", Next: "Check the broker.", Commands: []string{"ping"}})
	require.Equal(t, "broker_unreachable", c.Code)
	require.Equal(t, []string{
		"ALTER SYSTEM SET max_slot_wal_keep_size = '6GB';", "SELECT pg_reload_conf();", "ping",
	}, c.Commands)
	require.Contains(t, c.Next, "First buy time")
	require.Contains(t, c.Next, " Then: Check the broker.")
	require.Equal(t, c, s.BuyTime(c), "once")

	s.service = cloud.RDS
	require.Contains(t, s.BuyTime(cause(s)).Commands[0], "ParameterName=max_slot_wal_keep_size,ParameterValue=6144")

	s.WALStatus = WALExtended
	require.True(t, s.RunsOut())
	safe = 32 << 20
	require.False(t, s.RunsOut(), "half of the limit is left")
	s.WALStatus = WALReserved
	require.Empty(t, s.BuyTime(alert.Cause{}).Commands)
}
