package slotmonitor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

func watch(t *testing.T, dsn string, change func(*Config)) (*Monitor, *observer.ObservedLogs, *prometheus.Registry) {
	core, logs := observer.New(zap.DebugLevel)
	reg := prometheus.NewRegistry()
	cfg := Config{
		DSN: func() (string, error) { return dsn, nil }, Interval: 50 * time.Millisecond,
		Logger: zap.New(core), Registerer: reg,
	}
	change(&cfg)
	m, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(run(t, m))
	return m, logs, reg
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 20*time.Millisecond)
}

func one(m *Monitor) Slot {
	if slots := m.Latest(); len(slots) == 1 {
		return slots[0]
	}
	return Slot{}
}

func TestMonitorSeesSizesAndHolder(t *testing.T) {
	db := testkit.Postgres(t)
	db.Exec(t, `CREATE TABLE filler (x text)`)
	db.Exec(t, `SELECT pg_create_logical_replication_slot('`+db.Slot+`', 'pgoutput')`)
	db.Exec(t, `SELECT pg_create_physical_replication_slot('`+db.Slot+`_p')`)
	defer db.Exec(t, `SELECT pg_drop_replication_slot('`+db.Slot+`_p')`)
	m, _, reg := watch(t, db.DSN, func(c *Config) { c.Only = []string{db.Slot, db.Slot + "_p"} })
	eventually(t, func() bool { return one(m).Name == db.Slot })
	s := one(m)
	require.Equal(t, db.Name, s.Database)
	require.Equal(t, "pgoutput", s.Plugin)
	require.False(t, s.Active)
	require.NotNil(t, s.InactiveSince)
	require.Equal(t, WALReserved, s.WALStatus)
	require.Nil(t, s.LimitBytes)
	require.Nil(t, s.SafeBytes)

	db.Exec(t, `INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 5000)`)
	eventually(t, func() bool { return one(m).UnconfirmedBytes > 4<<20 })
	s = one(m) // of one moment
	require.GreaterOrEqual(t, s.RetainedBytes, s.UnconfirmedBytes)
	require.Equal(t, CauseNoConsumer, one(m).Cause.Code)
	n, err := testutil.GatherAndCount(reg, "cdc_outbox_slot_retained_wal_bytes")
	require.NoError(t, err)
	require.Equal(t, 1, n)

	db.Exec(t, `SELECT pg_drop_replication_slot('`+db.Slot+`')`)
	eventually(t, func() bool { return len(m.Latest()) == 0 })
}

// TestMonitorLeastPrivilege: sizes need no privilege at all; of other people's transactions a plain role sees the pid.
func TestMonitorLeastPrivilege(t *testing.T) {
	db := testkit.Postgres(t)
	db.Exec(t, `CREATE ROLE `+db.Name+` LOGIN`)
	t.Cleanup(func() { _ = db.Server.Exec(context.Background(), "postgres", `DROP ROLE `+db.Name) })
	db.Exec(t, `SELECT pg_create_logical_replication_slot('`+db.Slot+`', 'pgoutput')`)
	holder, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer func() { _ = holder.Close(context.Background()) }()
	_, err = holder.Exec(t.Context(), `BEGIN; SELECT pg_current_xact_id()`)
	require.NoError(t, err)
	for user, visible := range map[string]bool{db.Name: false, "postgres": true} {
		c := &connection{
			dsn:  func() (string, error) { return strings.Replace(db.DSN, "postgres@", user+"@", 1), nil },
			only: []string{db.Slot},
		}
		snap, err := c.snapshot(t.Context())
		c.close()
		require.NoError(t, err)
		require.Len(t, snap.Slots, 1)
		require.NotEmpty(t, snap.Open)
		require.Equal(t, int(holder.PgConn().PID()), snap.Open[0].PID)
		require.Equal(t, visible, snap.Open[0].Age != nil)
		require.Equal(t, db.Name, snap.Open[0].Database)
	}
}

// TestMonitorWarnsBeforeTheSlotIsLost takes a slot that no session reads through its states: extended, unreserved,
// lost.
func TestMonitorWarnsBeforeTheSlotIsLost(t *testing.T) {
	db := testkit.DedicatedPostgres(t, postgres.Options{WALSegment: 1, Settings: map[string]string{
		"max_slot_wal_keep_size": "20MB", "min_wal_size": "2MB", "max_wal_size": "16MB", "checkpoint_timeout": "1h",
		"wal_keep_size": "0",
	}})
	db.Exec(t, `CREATE TABLE filler (x text)`)
	db.Exec(t, `SELECT pg_create_logical_replication_slot('`+db.Slot+`', 'pgoutput')`)
	// Written WAL starts a checkpoint every 8 MB (max_wal_size / 1.9): from here at 8, 16 and 24, none while the slot
	// passes from 20 to 24 MB.
	db.Exec(t, `CHECKPOINT`)
	m, logs, reg := watch(t, db.DSN, func(*Config) {})
	eventually(t, func() bool { return one(m).WALStatus == WALReserved })
	require.Equal(t, int64(20<<20), *one(m).LimitBytes)
	require.Positive(t, *one(m).SafeBytes)

	statuses := []string{one(m).WALStatus}
	for range 40 {
		db.Exec(t, `INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 800)`)
		before := one(m).SampledAt
		eventually(t, func() bool { return one(m).SampledAt.After(before.Add(60 * time.Millisecond)) })
		if s := one(m).WALStatus; s != statuses[len(statuses)-1] {
			statuses = append(statuses, s)
		}
		if statuses[len(statuses)-1] == WALUnreserved {
			require.Equal(t, alert.Critical, one(m).Level)
			db.Exec(t, `CHECKPOINT`)
		}
		if statuses[len(statuses)-1] == WALLost {
			break
		}
	}
	require.Equal(t, []string{WALReserved, WALExtended, WALUnreserved, WALLost}, statuses)
	eventually(t, func() bool { a := one(m).Alerts; return len(a) > 0 && a[0].Rule == "slot_lost" })
	var alerts []string
	for _, e := range logs.All() {
		alerts = append(alerts, fmt.Sprint(e.ContextMap()["alert"]))
	}
	require.Contains(t, alerts, "slot_extended", "reported before the loss")
	require.Contains(t, alerts, "slot_unreserved")
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(""), "cdc_outbox_slot_retained_wal_bytes"),
		"nothing is kept for it any more")
}

func TestMonitorReconnects(t *testing.T) {
	db := testkit.DedicatedPostgres(t, postgres.Options{})
	db.Exec(t, `SELECT pg_create_logical_replication_slot('`+db.Slot+`', 'pgoutput')`)
	m, logs, _ := watch(t, db.DSN, func(*Config) {})
	eventually(t, func() bool { return one(m).Name != "" })
	db.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'cdc-outbox monitor'`)
	eventually(t, func() bool { return logs.FilterMessageSnippet("reaches the server again").Len() == 1 })
	require.NoError(t, db.Restart(t.Context(), postgres.Immediate))
	eventually(t, func() bool { return logs.FilterMessageSnippet("reaches the server again").Len() >= 2 })
	eventually(t, func() bool { return one(m).Name == db.Slot })
}

func TestMonitorKeepsTheDSNToItself(t *testing.T) {
	const canary = "s3cret-canary"
	for _, dsn := range []string{
		"postgres://u:" + canary + "@127.0.0.1:1/db", "postgres://u:" + canary + "@:::/%zz",
		canary,
	} {
		c := &connection{dsn: func() (string, error) { return dsn, nil }}
		_, err := c.snapshot(t.Context())
		require.Error(t, err)
		require.NotContains(t, fmt.Sprintf("%+v", err), canary)
	}
}

// TestVersionsShowWhatTheyKnow asks each version for what it has: who reads, what was spilled, who holds restart_lsn,
// and as a role with pg_monitor, how much lies in pg_wal.
func TestVersionsShowWhatTheyKnow(t *testing.T) {
	db := testkit.DedicatedPostgres(t, postgres.Options{
		WALSegment: 1,
		Settings:   map[string]string{"logical_decoding_work_mem": "64kB", "max_prepared_transactions": "2"},
	})
	db.Exec(t, `CREATE TABLE filler (x text)`)
	db.Exec(t, `SELECT pg_create_logical_replication_slot('`+db.Slot+`', 'test_decoding')`)
	db.Exec(t, `CREATE ROLE watcher LOGIN IN ROLE pg_monitor`)
	db.Exec(t, `BEGIN; INSERT INTO filler VALUES ('held'); PREPARE TRANSACTION 'a ''gid'''`)
	db.Exec(t, `INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 2000)`)
	for range 3 { // running-xacts records move restart_lsn, which the prepared transaction holds
		db.Exec(t, `CHECKPOINT; SELECT count(*) FROM pg_logical_slot_get_changes('`+db.Slot+`', NULL, NULL)`)
	}
	m, _, _ := watch(t, strings.Replace(db.DSN, "postgres@", "watcher@", 1), func(c *Config) { c.WALVolume = 1 << 30 })
	eventually(t, func() bool { return one(m).Stats != nil && one(m).Stats.SpilledBytes > 1<<20 })
	s := one(m)
	require.Equal(t, int64(1<<30), *s.VolumeBytes)
	require.Greater(t, *s.VolumeUsed, s.RetainedBytes)
	require.NotNil(t, s.InactiveSince)
	require.Empty(t, s.InvalidationReason)
	eventually(t, func() bool { return one(m).HeldBy != nil })
	require.Equal(t, "a 'gid'", one(m).HeldBy.GID)
	require.Equal(t, CauseOpenTransaction, one(m).Cause.Code)
	db.Exec(t, `ROLLBACK PREPARED 'a ''gid'''`)
	eventually(t, func() bool { return one(m).HeldBy == nil })
}

// Two samples show growth and the time left, and warn of a slot that no session reads.
//
// Bug (monitor): `monitor --once` took one sample. Cost: growth and time left were never there, and slots that no
// process reads were "ok".
func TestLookTwiceKnowsGrowth(t *testing.T) {
	db := testkit.Postgres(t)
	db.Exec(t, `CREATE TABLE filler (x text)`)
	db.Exec(t, `SELECT pg_create_logical_replication_slot('`+db.Slot+`', 'pgoutput')`)
	db.Exec(t, `INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 5000)`)
	cfg := Config{
		DSN: func() (string, error) { return db.DSN, nil }, Only: []string{db.Slot}, Thresholds: DefaultThresholds,
	}
	once, err := Look(t.Context(), cfg)
	require.NoError(t, err)
	require.Nil(t, once[0].GrowthPerSecond)
	require.Empty(t, once[0].Alerts)
	twice, err := LookTwice(t.Context(), cfg)
	require.NoError(t, err)
	require.NotNil(t, twice[0].GrowthPerSecond)
	require.Equal(t, alert.Warn, twice[0].Level)
	require.Equal(t, "slot_inactive", twice[0].Alerts[0].Rule)
	require.Contains(t, twice[0].Alerts[0].Sentence, "No session ")
}
