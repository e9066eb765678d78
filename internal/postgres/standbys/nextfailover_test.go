package standbys

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

// TestNextFailover: each fact about a standby, alone, beside a standby to which the stream would move.
func TestNextFailover(t *testing.T) {
	t.Parallel()
	type world struct {
		p *primary
		s *successor
	}
	for _, c := range []struct {
		name    string
		change  func(w world)
		outcome Outcome
		said    string
		command string
	}{
		{"nothing", func(world) {}, Continues, "a copy of the slot, with a lag of 0 B; it has received all WAL", ""},
		{"behind", func(w world) {
			w.s.slot.ConfirmedFlush, w.s.at = 0x1000, 0x1800
		}, Continues, "a lag of 4 KiB; 2 KiB of WAL have not arrived yet", ""},
		{"no copy", func(w world) { w.s.slot = postgres.Slot{} }, Loses, "has not copied it yet", ""},
		{"no copy, sync off", func(w world) {
			w.s.slot, w.s.Syncs = postgres.Slot{}, false
		}, Loses, "sync_replication_slots is off", "ALTER SYSTEM SET sync_replication_slots = on;"},
		{"no copy, no feedback", func(w world) {
			w.s.slot, w.s.server.Feedback = postgres.Slot{}, false
		}, Loses, "hot_standby_feedback is off", "ALTER SYSTEM SET hot_standby_feedback = on;"},
		{"no copy, no physical slot", func(w world) {
			w.s.slot, w.s.server.PrimarySlot = postgres.Slot{}, ""
		}, Loses, "primary_slot_name is empty", "ALTER SYSTEM SET primary_slot_name = 'STANDBY_SLOT';"},
		{"without failover", func(w world) {
			w.s.slot, w.p.slot.Failover = postgres.Slot{}, false
		}, Loses, "created without failover", `ALTER_REPLICATION_SLOT "orders" ( FAILOVER true );`},
		{"before 17", func(w world) {
			w.s.slot, w.p.slot.Failover, w.p.version = postgres.Slot{}, false, 160004
		}, Loses, "before PostgreSQL 17", ""},
		{"a tool's copy", func(w world) {
			w.s.slot.Synced, w.p.slot.Failover, w.p.version = false, false, 160004
			w.s.slot.ConfirmedFlush = 0x1000
		}, Continues, "not the server's own, with a lag of 4 KiB", ""},
		{"a tool's copy that is ahead", func(w world) {
			w.s.slot.Synced, w.p.slot.Failover, w.p.version = false, false, 160004
			w.s.slot.ConfirmedFlush = 0x3000
		}, Loses, "begins at 0/3000", "SELECT pg_drop_replication_slot('orders');"},
		{"not ready", func(w world) { w.s.slot.Temporary = true }, Loses, "is not ready", logEmit},
		{"invalidated", func(w world) {
			w.s.slot.InvalidationReason = "rows_removed"
		}, Loses, "invalidated (rows_removed)", "ALTER SYSTEM SET hot_standby_feedback = on;"},
		{"kept by a demoted primary", func(w world) {
			w.s.slot.Synced = false
		}, Repeats, "same name that the server does not synchronize", "SELECT pg_drop_replication_slot('orders');"},
		{"sync switched off later", func(w world) {
			w.s.Syncs, w.s.slot.ConfirmedFlush = false, 0x1000
		}, Repeats, "does not move any more, and has a lag of 4 KiB", "ALTER SYSTEM SET sync_replication_slots = on;"},
		{"promoted", func(w world) { w.s.server.InRecovery = false }, Unfit, "not in recovery", ""},
		{"another system", func(w world) { w.s.System = "7" }, Unfit, "another system", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			slot := postgres.Slot{Name: "orders", Exists: true, Logical: true, Failover: true, ConfirmedFlush: 0x2000}
			w := world{
				&primary{facts{System: "1", Started: "10", at: 0x2000}, slot, 170000},
				&successor{
					facts{System: "1", Started: "20", Syncs: true, at: 0x2000},
					slot,
					postgres.Server{Feedback: true, PrimarySlot: "standby_1"},
				},
			}
			w.s.slot.Synced, w.s.server.InRecovery = true, true
			c.change(w)
			f, isPrimary := w.p.judge("db-2:5432", w.s)
			require.False(t, isPrimary)
			require.Equal(t, c.outcome, f.Outcome, f.Sentence)
			require.Contains(t, f.Sentence, c.said)
			if c.outcome == Continues {
				require.Empty(t, f.Next.String())
				return
			}
			require.NotEmpty(t, f.Next.Next)
			if c.command != "" {
				require.Contains(t, f.Next.Commands, c.command)
			}
		})
	}
}

// TestThePrimaryIsNoSuccessor: hosts of a connection string include the primary, perhaps under another name.
func TestThePrimaryIsNoSuccessor(t *testing.T) {
	t.Parallel()
	own := facts{System: "1", Started: "10", at: lsn.LSN(5)}
	_, isPrimary := (&primary{facts: own}).judge("db-1:5432", &successor{facts: own})
	require.True(t, isPrimary)
	_, isPrimary = (&primary{facts: own}).judge("db-2:5432", &successor{
		facts: facts{System: "1", Started: time.Now().String()},
	})
	require.False(t, isPrimary, "another server with the same data, out of recovery")
}
