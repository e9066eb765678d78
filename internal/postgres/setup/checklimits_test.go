package setup

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/cloud"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	pgserver "github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

func TestCheckWALLimit(t *testing.T) {
	const mb, week = 1 << 20, 7 * 24 * time.Hour
	for name, c := range map[string]struct {
		server postgres.Server
		wal    walRate
		code   string // empty: fine
		words  []string
	}{
		"no limit": {
			postgres.Server{SlotWALKeepMB: -1},
			walRate{},
			"slot_wal_unlimited",
			[]string{"monitor.warn_retained (1 GiB)", "monitor.critical_retained (10 GiB)", "= '50GB'"},
		},
		"no limit, Azure": {
			postgres.Server{SlotWALKeepMB: -1, Service: cloud.Azure},
			walRate{},
			"slot_wal_unlimited",
			[]string{"read-only there", "--storage-auto-grow Enabled", "docs/clouds/azure.md"},
		},
		"no limit, RDS": {
			postgres.Server{SlotWALKeepMB: -1, Service: cloud.RDS},
			walRate{},
			"slot_wal_unlimited",
			[]string{"ParameterName=max_slot_wal_keep_size,ParameterValue=51200,ApplyMethod=immediate"},
		},
		"rate not known": {
			postgres.Server{SlotWALKeepMB: 64}, walRate{}, "", []string{"64 MiB of WAL; beyond"},
		},
		"statistics too young": {
			postgres.Server{SlotWALKeepMB: 64},
			walRate{Average: 9 * mb, Over: time.Minute},
			"",
			[]string{"64 MiB of WAL; beyond"},
		},
		"idle server": {
			postgres.Server{SlotWALKeepMB: 64}, walRate{Average: 0, Over: week}, "", []string{"64 MiB of WAL; beyond"},
		},
		"next to nothing is written": {
			postgres.Server{SlotWALKeepMB: 1 << 40}, walRate{Average: 1e-9, Over: week}, "", []string{"3650 days"},
		},
		"seven minutes": {
			postgres.Server{SlotWALKeepMB: 4096},
			walRate{Average: 9.5 * mb, Over: week},
			"slot_wal_small",
			[]string{"4 GiB of WAL, which is what is written in 7 minutes at the average of the last 7 days " +
				"(9.5 MiB/s)", "slot_time_to_limit", "= '802GB'"},
		},
		"seven minutes just now": {
			postgres.Server{SlotWALKeepMB: 4096},
			walRate{Average: mb / 1000, Over: week, Present: 9.5 * mb},
			"slot_wal_small",
			[]string{"7 minutes at the present rate"},
		},
		"just now, after a reset": {
			postgres.Server{SlotWALKeepMB: 4096},
			walRate{Average: 99 * mb, Over: time.Minute, Present: 9.5 * mb},
			"slot_wal_small",
			[]string{"7 minutes at the present rate"},
		},
		"a long night": {
			postgres.Server{SlotWALKeepMB: 51200},
			walRate{Average: mb, Over: week},
			"",
			[]string{"50 GiB of WAL, which is what is written in 14 hours"},
		},
		"none at all": {
			postgres.Server{SlotWALKeepMB: 0},
			walRate{Average: mb, Over: week},
			"slot_wal_small",
			[]string{"0 bytes of WAL, which is what is written in 0 seconds"},
		},
	} {
		f := checkWALLimit(Config{Retained: Retained{Warn: 1 << 30, Critical: 10 << 30}}, state{
			Server: c.server, WAL: c.wal,
		})
		require.Equal(t, c.code, f.Code, name)
		require.Equal(t, c.code == "", f.Level == preflight.OK, name)
		for _, w := range c.words {
			require.Contains(t, f.Found+f.Why+f.ToDo().String(), w, name)
		}
	}
}

func TestCheckTimeouts(t *testing.T) {
	require.Empty(t, checkSenderTimeout(state{Server: postgres.Server{SenderTimeout: 60_000}}))
	require.Empty(t, checkSenderTimeout(state{Server: postgres.Server{SenderTimeout: 0}}), "off")
	f := checkSenderTimeout(state{Server: postgres.Server{SenderTimeout: 1000, Service: cloud.Aurora}})[0]
	require.Equal(t, "sender_timeout", f.Code)
	require.Contains(t, f.ToDo().String(), "postgres.dsn: wal_sender_timeout=10000")
	require.Contains(t, f.ToDo().String(), "aws rds modify-db-cluster-parameter-group")
	f = checkIdleTimeout(state{Server: postgres.Server{IdleTimeout: 5400, Service: cloud.CloudSQL}})[0]
	require.Equal(t, "slot_idle_timeout", f.Code)
	require.Contains(t, f.ToDo().String(), "--database-flags=idle_replication_slot_timeout=604800")
}

// TestWALMark: neither a switch of WAL files nor statistics that arrive late make a rate.
func TestWALMark(t *testing.T) {
	at := time.Now()
	m := walMark{at: at, lsn: 100, bytes: 50}
	require.InDelta(t, 10, m.rate(walMark{at: at.Add(2 * time.Second), lsn: 16 << 20, bytes: 70}), 1e-9)
	require.InDelta(t, 5, m.rate(walMark{at: at.Add(2 * time.Second), lsn: 110, bytes: 1 << 30}), 1e-9)
	require.Zero(t, m.rate(walMark{at: at, lsn: 1000, bytes: 1000}))
	require.Zero(t, m.rate(walMark{at: at.Add(time.Second), lsn: 0, bytes: 0}), "the statistics were reset")
}

// TestServices takes a real server for each service, marked as the services mark theirs.
//
// Bug (poolers): A role named `rds_replication`, left by a restored dump, made any server look like Amazon RDS, and its
// members look like roles that may replicate. Cost: a missing right treated as granted.
func TestServices(t *testing.T) {
	t.Parallel() // on a server of its own
	db := testkit.DedicatedPostgres(t, pgserver.Options{Settings: map[string]string{
		"wal_level": "replica", "max_replication_slots": "1", "max_wal_senders": "1", "max_slot_wal_keep_size": "1MB",
		"wal_sender_timeout": "2s",
	}})
	db.Exec(t, setupTableDDL)
	db.Exec(t,
		`CREATE ROLE app LOGIN; CREATE ROLE rds_replication; CREATE ROLE connector LOGIN IN ROLE rds_replication;
			SELECT pg_create_physical_replication_slot('taken')`)
	dsn := strings.Replace(db.DSN, "postgres@", "app@", 1)
	cfg := Config{
		Objects: postgres.Objects{
			Slot: "s", Publication: "p", Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
		},
	}
	check := func(dsn string) (byCode map[string]preflight.Finding) {
		byCode = map[string]preflight.Finding{}
		for _, f := range Preflight(t.Context(), dsn, cfg) {
			byCode[f.Code] = f
		}
		return byCode
	}
	mark := func(setting, role string) (unmark func()) {
		if setting != "" {
			db.Exec(t, `ALTER DATABASE `+db.Name+` SET `+setting+` = 'o''ff; "'`)
		}
		if role != "" {
			db.Exec(t, `CREATE ROLE `+role)
		}
		return func() {
			if setting != "" {
				db.Exec(t, `ALTER DATABASE `+db.Name+` RESET `+setting)
			}
			if role != "" {
				db.Exec(t, `DROP ROLE `+role)
			}
		}
	}
	for s, marks := range map[cloud.Service][2]string{
		cloud.RDS:      {"rds.logical_replication", "rds_superuser"},
		cloud.CloudSQL: {"cloudsql.logical_decoding", "cloudsqlsuperuser"},
		cloud.AlloyDB:  {"alloydb.logical_decoding", "alloydbsuperuser"},
		cloud.Azure:    {"azure.extensions", "azure_pg_admin"},
		cloud.Neon:     {"neon.timeline_id", "neon_superuser"},
		cloud.Supabase: {"supautils.reserved_roles", "supabase_auth_admin"},
	} {
		unmark := mark(marks[0], marks[1])
		found := check(dsn)
		require.Contains(t, found["managed_service"].Found, s.Name(), s)
		for code, remedy := range map[string]fault.Remedy{
			"wal_level": s.LogicalDecoding(), "role_replication": s.Replication("app", `"app"`),
			"no_free_slot": s.Set("max_replication_slots", "6", true), "sender_timeout": s.SenderTimeout(60_000),
		} {
			require.Contains(t, found[code].Remedy, remedy.Next, "%s: %s", s, code)
			require.Subset(t, found[code].Commands, remedy.Commands, "%s: %s", s, code)
			require.Contains(t, found[code].ToDo().String(), s.Page(), "%s: %s", s, code)
			require.NotContains(t, found[code].ToDo().String(), "ALTER SYSTEM", "%s: %s", s, code)
		}
		unmark()
		unmark = mark("", marks[1])
		require.NotContains(t, check(dsn), "managed_service", "a role alone, as a restored dump brings it")
		unmark()
	}
	db.Exec(t, `CREATE FUNCTION aurora_version() RETURNS text LANGUAGE sql AS 'SELECT ''16.4.1'''`)
	defer mark("rds.logical_replication", "rds_superuser")()
	require.Contains(t, check(dsn)["managed_service"].Found, "Amazon Aurora")
	member := strings.Replace(db.DSN, "postgres@", "connector@", 1)
	require.NotContains(t, check(member), "role_replication", "there the membership is what counts")
	db.Exec(t, `DROP ROLE rds_superuser`)
	require.Contains(t, check(member)["role_replication"].ToDo().String(), `ALTER ROLE "connector" REPLICATION;`,
		"elsewhere it is a role like any other")
	db.Exec(t, `CREATE ROLE rds_superuser`)
}

// TestSmallLimitIsMeasured: WAL that is written while check looks.
func TestSmallLimitIsMeasured(t *testing.T) {
	t.Parallel() // on a server of its own
	db := testkit.DedicatedPostgres(t, pgserver.Options{Settings: map[string]string{"max_slot_wal_keep_size": "64MB"}})
	db.Exec(t, setupTableDDL)
	db.Exec(t, `CREATE TABLE filler (x text)`)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = db.Server.Exec(t.Context(), db.Name,
					`INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 2000)`)
			}
		}
	}()
	found := worse(t, Preflight(t.Context(), db.DSN, Config{
		Objects: postgres.Objects{
			Slot: "s", Publication: "p", Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
		},
	}))
	close(stop)
	<-stopped
	f := found["max_slot_wal_keep_size"]
	require.Equal(t, "slot_wal_small", f.Code)
	require.Contains(t, f.Found, "64 MiB of WAL, which is what is written in ")
	require.Contains(t, f.Found, "at the present rate")
}

// TestEnsureRoleMayNotReplicate: with publication and slot there, the first that notices would be the walsender, which
// knows of no service.
//
// Bug (setup): With the publication and the slot present, `run` as a role that may not replicate advised `ALTER ROLE …
// REPLICATION` on services that do not allow it. Cost: a remedy that does not help.
func TestEnsureRoleMayNotReplicate(t *testing.T) {
	t.Parallel() // on a server of its own
	db := testkit.DedicatedPostgres(t, pgserver.Options{})
	db.Exec(t, setupTableDDL)
	db.Exec(t, `CREATE ROLE app LOGIN; CREATE ROLE rds_replication`)
	cfg := Config{
		Objects: postgres.Objects{
			Slot: "s", Publication: "p", Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
		},
	}
	require.NoError(t, Ensure(t.Context(), db.DSN, cfg, true))
	dsn := strings.Replace(db.DSN, "postgres@", "app@", 1)
	refused := func(remedy string) {
		t.Helper()
		for _, auto := range []bool{true, false} {
			err := Ensure(t.Context(), dsn, cfg, auto)
			requireOperator(t, err, "The role has no right to replicate")
			for _, f := range Preflight(t.Context(), dsn, cfg) {
				if f.Code == "role_replication" {
					var known *fault.Error
					require.ErrorAs(t, err, &known)
					require.Equal(t, f.ToDo().String(), known.Remedy().String())
					require.Contains(t, f.ToDo().String(), remedy)
				}
			}
		}
	}
	refused(`ALTER ROLE "app" REPLICATION;`)
	db.Exec(t, `CREATE ROLE rds_superuser; ALTER DATABASE `+db.Name+` SET rds.logical_replication = 'on'`)
	refused(`GRANT rds_replication TO "app";`)
	db.Exec(t, `ALTER ROLE app REPLICATION`)
	require.NoError(t, Ensure(t.Context(), dsn, cfg, false))
}

// Bug (monitor): `check` and `slot` raised the limit of a slot that was about to be lost to twice the limit, whatever
// the slot held back, and `check` had nothing against the limit otherwise. Cost: a command that does not save the slot.
func TestASlotThatRunsOutIsGivenEnough(t *testing.T) {
	const mb = 1 << 20
	at := func(status string, safe int64) state {
		return state{
			Server: postgres.Server{SlotWALKeepMB: 64},
			Slot:   postgres.Slot{Name: "s", Exists: true, WALStatus: status, SafeWALSize: &safe},
		}
	}
	st := at(postgres.WALUnreserved, (64-3<<10)*mb) // it holds back 3 GB
	require.True(t, st.runsOut())
	f := runningOut(Config{}, st)
	require.Equal(t, "ALTER SYSTEM SET max_slot_wal_keep_size = '6GB';", f.Commands[0])
	require.Contains(t, f.Remedy, "First buy time")
	st = at(postgres.WALExtended, 8*mb)
	require.True(t, st.runsOut())
	require.Contains(t, runningOut(Config{}, st).Found, "8 MiB are left")
	require.False(t, at(postgres.WALExtended, 32*mb).runsOut())
	require.False(t, at(postgres.WALReserved, 8*mb).runsOut())
	st.Server.SlotWALKeepMB = -1
	require.False(t, st.runsOut(), "there is no limit")
}
