package setup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// TestCheckSynchronizedStandbySlots: a slot with failover is held back only for the slots that this setting names.
//
// Bug (standbys): Nothing looked at `synchronized_standby_slots`, without which a slot with failover is ahead of the
// standby. Cost: events that a promotion takes back.
func TestCheckSynchronizedStandbySlots(t *testing.T) {
	t.Parallel() // on a server of its own
	db := testkit.DedicatedPostgres(t, pgserver.Options{Version: "17"})
	db.Exec(t, setupTableDDL)
	cfg := planConfig()
	cfg.Slot, cfg.Publication, cfg.Failover = db.Slot, db.Publication, true
	require.NoError(t, Ensure(t.Context(), db.DSN, cfg, true))
	db.Exec(t, `SELECT pg_create_physical_replication_slot('standby_1', true)`)

	found := Preflight(t.Context(), db.DSN, cfg)
	f := about(found, codeHeldSlots)
	require.NotNil(t, f, "%v", found)
	require.Equal(t, preflight.Warn, f.Level)
	require.Contains(t, f.Commands, "ALTER SYSTEM SET synchronized_standby_slots = 'standby_1';")
	cfg.Standbys = standbys.Demand{Names: []string{"a"}}
	require.Nil(t, about(Preflight(t.Context(), db.DSN, cfg), codeHeldSlots), "the relay waits itself")
	cfg.Standbys = standbys.Demand{}

	for _, command := range f.Commands {
		db.Exec(t, command)
	}
	require.Eventually(t, func() bool {
		found = Preflight(t.Context(), db.DSN, cfg)
		return about(found, codeHeldSlots) == nil && about(found, codeHeldMissing) == nil
	}, 30*time.Second, 50*time.Millisecond)
	db.Exec(t, `SELECT pg_drop_replication_slot('standby_1')`)
	f = about(Preflight(t.Context(), db.DSN, cfg), codeHeldMissing)
	require.NotNil(t, f)
	require.Contains(t, f.Found, "standby_1")
}

func TestCheckStandbys(t *testing.T) {
	standby := standbys.Sender{Name: "a", State: "streaming", Flushed: "0/10"}
	decoder := standbys.Sender{Name: "cdc-outbox/s", State: "streaming", Flushed: "0/10", Logical: true}
	names := func(names ...string) standbys.Demand { return standbys.Demand{Names: names} }
	for _, c := range []struct {
		name   string
		demand standbys.Demand
		look   standbys.Look
		blind  bool
		code   string
		level  preflight.Level
	}{
		{name: "nothing asked for, nothing there", code: ""},
		{
			name: "synchronous, no gate", look: standbys.Look{SyncNames: "a", Senders: []standbys.Sender{standby}},
			code: codeStandbyGate, level: preflight.Warn,
		},
		{
			name: "the server does it", code: "",
			look: standbys.Look{SyncNames: "a", Failover: true, HeldSlots: "s1", Slots: []string{"s1"}},
		},
		{name: "follows nothing", demand: names(standbys.AsServer), code: codeStandbyGate, level: preflight.Warn},
		{name: "away", demand: names("a"), code: codeStandbyMissing, level: preflight.Fail},
		{
			name: "a decoder", demand: names("cdc-outbox/s"), look: standbys.Look{Senders: []standbys.Sender{decoder}},
			code: codeStandbyMissing, level: preflight.Fail,
		},
		{name: "no rights", demand: names("a"), blind: true, code: codeStandbyRights, level: preflight.Fail},
		{name: "rights not needed", blind: true, code: ""},
	} {
		cfg, st := Config{Standbys: c.demand}, state{Server: postgres.Server{MaySeeOthers: !c.blind}}
		st.Standbys = &c.look
		bad := preflight.Finding{}
		for _, f := range checkStandbys(cfg, st) {
			if f.Level != preflight.OK {
				bad = f
			}
		}
		require.Equal(t, c.code, bad.Code, c.name)
		require.Equal(t, c.level, bad.Level, c.name)
	}
}
