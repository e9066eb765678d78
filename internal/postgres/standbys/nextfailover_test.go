package standbys

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
)

const dropIt = "SELECT pg_drop_replication_slot('orders');"

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
		{"nothing", func(world) {}, Continues, "a copy of the slot, with a lag of 0 B, and of 0 B of WAL", ""},
		{"a lag", func(w world) {
			w.s.slot.ConfirmedFlush, w.s.at = 0x1000, 0x1800
		}, Continues, "a lag of 4 KiB, and of 2 KiB of WAL", ""},
		{"synchronized by its own schedule", func(w world) { w.s.Syncs = false }, Continues, "a copy of the slot", ""},
		{"no copy", func(w world) { w.s.slot = postgres.Slot{} }, Loses, "its settings do not say why", ""},
		{"no copy, sync off", func(w world) {
			w.s.slot, w.s.Syncs = postgres.Slot{}, false
		}, Loses, "sync_replication_slots is off", "ALTER SYSTEM SET sync_replication_slots = 'on';"},
		{"no copy, no feedback", func(w world) {
			w.s.slot, w.s.server.Feedback = postgres.Slot{}, false
		}, Loses, "hot_standby_feedback is off", "ALTER SYSTEM SET hot_standby_feedback = 'on';"},
		{"no copy, no physical slot", func(w world) {
			w.s.slot, w.s.server.PrimarySlot = postgres.Slot{}, ""
		}, Loses, "does not stream from this primary", ""},
		{"no copy, a standby of another standby", func(w world) {
			w.s.slot, w.p.Physical = postgres.Slot{}, []string{"another"}
		}, Loses, `primary_slot_name is "standby_1"`, ""},
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
		}, Loses, "begins at 0/3000", dropIt},
		{"a slot that was left long ago", func(w world) {
			w.s.slot.Synced, w.p.slot.Failover, w.p.version = false, false, 160004
			w.p.slot.ConfirmedFlush = 1 << 40
		}, Repeats, "no tool keeps it", dropIt},
		{"a physical slot", func(w world) {
			w.s.slot = postgres.Slot{Name: "orders", Exists: true}
			w.p.slot.Failover, w.p.version = false, 160004
		}, Loses, "another kind", dropIt},
		{"a slot of another database", func(w world) {
			w.s.slot.Synced, w.s.slot.Database = false, "billing"
		}, Loses, "another kind, plugin or database", dropIt},
		{"not ready", func(w world) {
			w.s.slot.Temporary = true
		}, Loses, "is not ready", "SELECT pg_log_standby_snapshot();"},
		{"invalidated", func(w world) {
			w.s.slot.InvalidationReason = "rows_removed"
		}, Loses, "invalidated (rows_removed)", ""},
		{"kept by a demoted primary", func(w world) {
			w.s.slot.Synced = false
		}, Repeats, "same name that the server does not synchronize", dropIt},
		{"kept by a demoted primary, and made after its time", func(w world) {
			w.s.slot.Synced, w.s.slot.ConfirmedFlush = false, 0x3000
		}, Loses, "begins at 0/3000", dropIt},
		{"switched off later", func(w world) {
			w.s.Syncs, w.s.slot.ConfirmedFlush, w.s.Idle = false, 0x1000, new(600.0)
		}, Repeats, "was not synchronized for 10 min", "ALTER SYSTEM SET sync_replication_slots = 'on';"},
		{"it stopped for a reason that no setting shows", func(w world) {
			w.s.Idle = new(600.0)
		}, Repeats, "its settings do not say why", ""},
		{"between two cycles", func(w world) { w.s.Idle = new(29.0) }, Continues, "a copy of the slot", ""},
		{"promoted", func(w world) { w.s.server.InRecovery = false }, Unfit, "not in recovery", ""},
		{"another system", func(w world) { w.s.System = "7" }, Unfit, "another system", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			slot := postgres.Slot{Name: "orders", Exists: true, Logical: true, Failover: true, ConfirmedFlush: 0x2000}
			w := world{
				&primary{facts{System: "1", Started: "10", at: 0x2000, Physical: []string{"standby_1"}}, slot, 170000},
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
