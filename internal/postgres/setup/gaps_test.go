package setup

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

// withGaps is a database that setup has made with a checkpoint.
func withGaps(t *testing.T, tables ...string) *adminDB {
	db := newAdminDB(t, tables...)
	db.cfg.Checkpoint = identifier.Table{Schema: "public", Name: "cdc_outbox_checkpoint"}
	_, err := Run(t.Context(), db.DSN, db.cfg)
	require.NoError(t, err)
	return db
}

// gapsBefore looks as a start does before it streams, and returns the open gaps.
func gapsBefore(t *testing.T, db *adminDB) []gap.Gap {
	t.Helper()
	r, err := LookBefore(t.Context(), db.DSN, db.cfg, nil)
	require.NoError(t, err)
	require.NoError(t, r.Why)
	return r.Gaps
}

// look is what a connector that runs does at each interval.
func (db *adminDB) look(t *testing.T) []gap.Gap {
	t.Helper()
	r, _ := CheckRunning(t.Context(), db.DSN, db.cfg, nil)
	require.NoError(t, r.Why)
	require.True(t, r.Looked)
	return r.Gaps
}

// Bug (stream): a table that was taken out of the publication and put back, options or a row filter that were changed
// and changed back, between two checks or while nothing ran, were not noticed. Cost: events missing from Kafka for
// ever, while the connector was ready and `check` content.
func TestVersionsPublicationFlickers(t *testing.T) {
	db := withGaps(t, setupTableDDL)
	require.Empty(t, db.look(t))
	pub := identifier.Quote(db.cfg.Publication)
	flickers := []struct{ name, sql, what string }{
		{"table taken out", `BEGIN; ALTER PUBLICATION ` + pub + ` DROP TABLE outbox;
			ALTER PUBLICATION ` + pub + ` ADD TABLE outbox; COMMIT`, "taken out"},
		{"another table", `CREATE TABLE other (id int); ALTER PUBLICATION ` + pub + ` SET TABLE other;
			ALTER PUBLICATION ` + pub + ` SET TABLE outbox; DROP TABLE other`, "taken out"},
		{"updates only", `ALTER PUBLICATION ` + pub + ` SET (publish = 'update');
			ALTER PUBLICATION ` + pub + ` SET (publish = 'insert')`, "options"},
	}
	if db.version(t) >= 150000 {
		flickers = append(flickers, struct{ name, sql, what string }{
			"row filter", `ALTER PUBLICATION ` + pub + ` SET TABLE outbox WHERE (event_type <> 'x');
			ALTER PUBLICATION ` + pub + ` SET TABLE outbox`, "its entry there was replaced",
		})
	}
	for i, f := range flickers {
		db.Exec(t, f.sql)
		open := db.look(t)
		require.Len(t, open, i+1, f.name)
		require.Equal(t, gap.PublicationChanged, open[i].Cause)
		require.Contains(t, open[i].What, f.what, f.name)
		require.False(t, open[i].Lasts())
		require.Len(t, db.look(t), i+1, "it is found once")
	}
}

func (db *adminDB) version(t *testing.T) (n int) {
	require.NoError(t, db.conn.QueryRow(t.Context(), `SELECT current_setting('server_version_num')::int`).Scan(&n))
	return n
}

func TestVersionsHarmlessChangesOpenNoGap(t *testing.T) {
	db := withGaps(t, `CREATE TABLE outbox (id uuid NOT NULL, aggregate_type text NOT NULL, aggregate_id text NOT NULL,
		event_type text NOT NULL, payload jsonb, headers jsonb, created_at timestamptz NOT NULL DEFAULT now(),
		PRIMARY KEY (id, created_at)) PARTITION BY RANGE (created_at)`,
		`CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')`,
		`CREATE TABLE outbox_2 PARTITION OF outbox FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')`)
	require.Empty(t, db.look(t))
	pub, role := identifier.Quote(db.cfg.Publication), identifier.Quote(db.cfg.Slot+"_role")
	db.Exec(t, "CREATE ROLE "+role)
	t.Cleanup(func() {
		for _, sql := range []string{
			"REASSIGN OWNED BY " + role + " TO current_user", "DROP OWNED BY " + role,
			"DROP ROLE " + role,
		} {
			_, err := db.conn.Exec(context.Background(), sql)
			require.NoError(t, err)
		}
	})
	changes := []string{
		`INSERT INTO outbox VALUES (gen_random_uuid(), 'a', 'b', 'c', '{}', '{}', '2026-01-05')`,
		`VACUUM outbox`, `VACUUM FREEZE outbox`, `VACUUM FULL outbox`, `ANALYZE outbox`, `VACUUM FREEZE`,
		`VACUUM FULL pg_publication`, `VACUUM FULL pg_publication_rel`, `VACUUM FULL pg_inherits`,
		`VACUUM FULL pg_class`, `ANALYZE`,
		`CREATE INDEX harmless ON outbox (aggregate_id)`, `DROP INDEX harmless`,
		`CREATE INDEX CONCURRENTLY harmless ON outbox_1 (aggregate_id)`, `REINDEX TABLE outbox_1`,
		`REINDEX TABLE CONCURRENTLY outbox_2`, `CLUSTER outbox_1 USING harmless`, `TRUNCATE outbox_2`,
		`ALTER TABLE outbox ADD COLUMN extra text`, `ALTER TABLE outbox ALTER COLUMN extra TYPE varchar(10)`,
		`ALTER TABLE outbox RENAME COLUMN extra TO more`, `ALTER TABLE outbox DROP COLUMN more`,
		`ALTER TABLE outbox_1 REPLICA IDENTITY FULL`, `ALTER TABLE outbox_1 REPLICA IDENTITY DEFAULT`,
		`ALTER TABLE outbox_1 SET (autovacuum_enabled = off)`, `ALTER TABLE outbox ENABLE ROW LEVEL SECURITY`,
		`ALTER TABLE outbox DISABLE ROW LEVEL SECURITY`,
		`GRANT SELECT ON outbox TO ` + role, `REVOKE SELECT ON outbox FROM ` + role,
		`COMMENT ON TABLE outbox IS 'events'`, `COMMENT ON PUBLICATION ` + pub + ` IS 'the outbox'`,
		`GRANT CREATE ON SCHEMA public TO ` + role,
		`GRANT CREATE ON DATABASE ` + identifier.Quote(db.Name) + ` TO ` + role,
		`ALTER TABLE outbox OWNER TO ` + role, `ALTER PUBLICATION ` + pub + ` OWNER TO ` + role,
		`CREATE TABLE other (id int)`, `ALTER PUBLICATION ` + pub + ` ADD TABLE other`, // of another service
		`ALTER PUBLICATION ` + pub + ` DROP TABLE other`, `ALTER PUBLICATION ` + pub + ` SET TABLE outbox`,
		`CREATE TABLE outbox_3 PARTITION OF outbox FOR VALUES FROM ('2026-03-01') TO ('2026-04-01')`,
		`CREATE TABLE outbox_4 (LIKE outbox INCLUDING ALL)`,
		`ALTER TABLE outbox ATTACH PARTITION outbox_4 FOR VALUES FROM ('2026-04-01') TO ('2026-05-01')`,
		`ALTER TABLE outbox DETACH PARTITION outbox_3`, `DROP TABLE outbox_1`,
		`ALTER TABLE outbox DETACH PARTITION outbox_2 CONCURRENTLY`,
	}
	for _, sql := range changes {
		db.Exec(t, sql)
		require.Empty(t, db.look(t), sql)
	}
}

func TestVersionsGapLastsUntilThePublicationIsRight(t *testing.T) {
	db := withGaps(t, setupTableDDL)
	require.Empty(t, db.look(t))
	pub := identifier.Quote(db.cfg.Publication)
	db.Exec(t, `ALTER PUBLICATION `+pub+` DROP TABLE outbox`)
	open := db.look(t)
	require.Len(t, open, 1)
	require.Equal(t, gap.Unpublished, open[0].Cause)
	require.True(t, open[0].Lasts())
	require.Equal(t, open, db.look(t), "it is one gap, however often it is seen")
	db.Exec(t, `ALTER PUBLICATION `+pub+` ADD TABLE outbox`)
	open = db.look(t)
	require.Len(t, open, 1)
	require.False(t, open[0].Lasts())
	require.Len(t, db.look(t), 1)

	f := about(Preflight(t.Context(), db.DSN, db.cfg), codeGap)
	require.NotNil(t, f)
	require.Equal(t, preflight.Fail, f.Level)
	require.Contains(t, f.Commands, "cdc-outbox repair")
	require.NoError(t, db.ensure(t, false), "a gap is no reason not to start")
}

// Bug (stream): that a repair was due after `slot recreate`, `slot accept` or a slot made by hand was forgotten. Cost:
// what lay before the new slot was missing from Kafka, and every view was green.
func TestVersionsGapsWhileNothingRuns(t *testing.T) {
	db := withGaps(t, setupTableDDL)
	before := func() []gap.Gap { return gapsBefore(t, db) }
	require.Empty(t, before())
	_, err := AcceptSlot(t.Context(), db.DSN, db.cfg)
	require.NoError(t, err)
	require.Empty(t, before(), "a slot that is where it was left")
	pub := identifier.Quote(db.cfg.Publication)
	db.Exec(t, `ALTER PUBLICATION `+pub+` SET (publish = 'update')`)
	db.Exec(t, `ALTER PUBLICATION `+pub+` SET (publish = 'insert')`)
	require.Len(t, before(), 1)

	left := db.slot(t).ConfirmedFlush
	require.NoError(t, func() error { _, err := RecreateSlot(t.Context(), db.DSN, db.cfg); return err }())
	open := before()
	require.Len(t, open, 2)
	require.Equal(t, gap.SlotRecreated, open[1].Cause)
	require.Equal(t, left.String(), open[1].FromLSN)
	require.Equal(t, db.slot(t).ConfirmedFlush.String(), open[1].ToLSN)

	db.Exec(t, `SELECT pg_replication_slot_advance('`+db.cfg.Slot+`', pg_current_wal_lsn())`)
	_, err = AcceptSlot(t.Context(), db.DSN, db.cfg)
	require.NoError(t, err)
	open = before()
	require.Len(t, open, 3)
	require.Equal(t, gap.SlotAccepted, open[2].Cause)
	require.Equal(t, open[1].ToLSN, open[2].FromLSN)

	db.Exec(t, `SELECT pg_drop_replication_slot('`+db.cfg.Slot+`')`)
	db.Exec(t, db.cfg.SlotDDL())
	db.Exec(t, db.cfg.ForgetSQL())
	open = before()
	require.Len(t, open, 4, "a slot that was made by hand")
	require.Equal(t, gap.SlotRemade, open[3].Cause)

	_, err = Teardown(t.Context(), db.DSN, db.cfg, false)
	require.NoError(t, err)
	_, err = Run(t.Context(), db.DSN, db.cfg)
	require.NoError(t, err)
	require.Empty(t, before(), "a later slot of the same name has an account of its own")
}

// Bug (stream): nothing remembered which Kafka had acknowledged the events. Cost: after the cluster was replaced by an
// empty one, the events before were in no Kafka, while the connector was ready and `check` content.
func TestVersionsKafkaReplaced(t *testing.T) {
	db := withGaps(t, setupTableDDL)
	in := func(kafka string) []gap.Gap {
		r, _ := CheckRunning(t.Context(), db.DSN, db.cfg, &publisher{now: gap.Kafka{ID: kafka}})
		require.NoError(t, r.Why)
		require.True(t, r.Looked)
		return r.Gaps
	}
	for _, kafka := range []string{"", "A", "", "A"} {
		require.Empty(t, in(kafka))
	}
	db.Exec(t, `ALTER PUBLICATION `+identifier.Quote(db.cfg.Publication)+` DROP TABLE outbox`)
	require.Len(t, in("A"), 1, "and while rows are hidden")
	open := in("B")
	require.Len(t, open, 2)
	require.Equal(t, gap.KafkaReplaced, open[1].Cause)
	require.Contains(t, open[1].What, `the cluster "B" now, and what was published before went to the cluster "A"`)
	require.Empty(t, open[1].FromLSN)
	require.Nil(t, open[1].FromAt)
	require.False(t, open[1].Lasts())
	require.Len(t, in("B"), 2, "it is found once")
	require.Len(t, in(""), 2)
	db.Exec(t, `ALTER PUBLICATION `+identifier.Quote(db.cfg.Publication)+` ADD TABLE outbox`)
	require.Len(t, in("B"), 2)
	_, err := RecreateSlot(t.Context(), db.DSN, db.cfg)
	require.NoError(t, err)
	require.Len(t, in("A"), 4, "another slot publishes to the same Kafka")
}

// publisher publishes to the cluster of an id; without one, to none.
type publisher struct {
	now  gap.Kafka
	last gap.Kafka
	kept []gap.Lost
}

func (p *publisher) Kafka(last gap.Kafka) gap.Kafka { p.last = last; return p.now }
func (p *publisher) Kept(lost []gap.Lost)           { p.kept, p.now.Lost = lost, nil }

// Bug (stream): nothing remembered how far Kafka had acknowledged records. Cost: after a topic was deleted and created
// again, after an unclean election, and in a cluster that was put back to an older copy of itself, acknowledged events
// were in no Kafka, while the connector was ready and `check` content.
func TestVersionsKafkaLostRecords(t *testing.T) {
	db := withGaps(t, setupTableDDL)
	p := &publisher{now: gap.Kafka{ID: "A"}}
	look := func(ends ...int64) []gap.Gap {
		p.now.Ends = map[string][]int64{"t": ends}
		r, _ := CheckRunning(t.Context(), db.DSN, db.cfg, p)
		require.NoError(t, r.Why)
		require.True(t, r.Looked)
		return r.Gaps
	}
	require.Empty(t, look(0, 70))
	require.Empty(t, look(5, 100))
	require.Equal(t, gap.Kafka{ID: "A", Ends: map[string][]int64{"t": {0, 70}}}, p.last)

	lost := []gap.Lost{{Topic: "t", Partition: 1, From: 104, To: 120}}
	p.now.Lost = lost
	db.Exec(t, `ALTER PUBLICATION `+identifier.Quote(db.cfg.Publication)+` DROP TABLE outbox`)
	open := look(6, 105)
	require.Equal(t, lost, p.kept)
	require.Len(t, open, 1, "one gap at a time")
	require.Equal(t, gap.KafkaLost, open[0].Cause)
	require.Contains(t, open[0].What, `offsets 104 to 119 of partition 1 of topic "t"`)
	require.NotEmpty(t, open[0].FromLSN, "acknowledged since the last check")
	require.False(t, open[0].Lasts())
	open = look(6, 105)
	require.Len(t, open, 2)
	require.Equal(t, gap.Unpublished, open[1].Cause)
	require.Equal(t, map[string][]int64{"t": {6, 105}}, p.last.Ends)
	db.Exec(t, `ALTER PUBLICATION `+identifier.Quote(db.cfg.Publication)+` ADD TABLE outbox`)
	require.Len(t, look(6, 107), 2)

	for name, test := range map[string]gap.Lost{
		"older records":        {Topic: "t", Partition: 1, From: 0, To: 107},
		"not known before":     {Topic: "t", Partition: 7, From: 3, To: 4},
		"a topic of that kind": {Topic: "u", Partition: 0, From: 3, To: 4},
	} {
		p.now.Lost = []gap.Lost{lost[0], test}
		before := len(look(6, 107)) - 1
		open := look(6, 107)
		require.Len(t, open, before+1, name)
		require.Empty(t, open[before].FromLSN, name)
		require.Nil(t, open[before].FromAt, name)
	}
	_, err := RecreateSlot(t.Context(), db.DSN, db.cfg)
	require.NoError(t, err)
	look(6, 107)
	require.Equal(t, gap.Kafka{ID: "A", Ends: map[string][]int64{"t": {6, 107}}}, p.last, "the same Kafka")
}

// Bug (checkpoint): A checkpoint's table that was truncated was filled again at the next start without a word. Cost:
// whether the slot is where it was left could not be judged, so what a moved slot had skipped stayed unseen.
func TestVersionsCheckpointTruncated(t *testing.T) {
	db := withGaps(t, setupTableDDL)
	before := func() []gap.Gap { return gapsBefore(t, db) }
	_, err := AcceptSlot(t.Context(), db.DSN, db.cfg)
	require.NoError(t, err)
	require.Empty(t, before())
	left := db.slot(t).ConfirmedFlush
	db.Exec(t, insertRow)
	db.Exec(t, `SELECT pg_replication_slot_advance('`+db.cfg.Slot+`', pg_current_wal_lsn())`)
	db.Exec(t, "TRUNCATE "+db.cfg.Checkpoint.SQL())
	open := before()
	require.Len(t, open, 1)
	require.Equal(t, gap.SlotRemade, open[0].Cause)
	from, err := lsn.Parse(open[0].FromLSN)
	require.NoError(t, err)
	require.LessOrEqual(t, from, left, "what the moved slot skipped is in the gap")
	require.Equal(t, open, before(), "a start that ends before it confirms opens no second one")
}
