package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/tools/archive"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/prune"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

// oddLeaf is a partition whose name has to be quoted everywhere.
const oddLeaf = `"p'a.rt ""x; --"`

// byDay is an outbox with a partition for each of the last days, one of the future, and one of an unexpected name.
func byDay(t *testing.T, db *testkit.Database) {
	t.Helper()
	today := time.Now().UTC().Truncate(24 * time.Hour)
	if left := time.Until(today.AddDate(0, 0, 1)); left < time.Minute {
		time.Sleep(left) //waits:ok the test is about days, and must not see two
	}
	day := func(n int) string {
		return time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, n).Format("2006-01-02")
	}
	db.Exec(t, `CREATE TABLE outbox (id uuid DEFAULT gen_random_uuid(), aggregate_type text, aggregate_id text,
		event_type text, payload jsonb, headers jsonb,
		created_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (id, created_at, aggregate_type)) PARTITION BY RANGE
			(created_at)`)
	for n := 1; n <= 5; n++ {
		db.Exec(t, fmt.Sprintf(`CREATE TABLE outbox_%d PARTITION OF outbox FOR VALUES
			FROM ('%s') TO ('%s')`, n, day(-n), day(1-n)))
	}
	db.Exec(t, fmt.Sprintf(`CREATE TABLE outbox_now PARTITION OF outbox FOR VALUES
		FROM ('%s') TO ('%s')`, day(0), day(2)))
	db.Exec(t, fmt.Sprintf(`CREATE TABLE outbox_next PARTITION OF outbox FOR VALUES FROM ('%s') TO (MAXVALUE)`, day(2)))
	// A level below, by aggregate type, in one of another column order.
	db.Exec(t, fmt.Sprintf(`CREATE TABLE outbox_old (headers jsonb, created_at timestamptz NOT NULL, id uuid NOT NULL,
		aggregate_type text NOT NULL, aggregate_id text, event_type text, payload jsonb) PARTITION BY LIST
			(aggregate_type);
		CREATE TABLE %s PARTITION OF outbox_old FOR VALUES IN ('orders');
		ALTER TABLE outbox ATTACH PARTITION outbox_old FOR VALUES FROM (MINVALUE) TO ('%s')`, oddLeaf, day(-5)))
}

// olderThan is the age of the last midnight but n, so that the partitions from n+1 on are old enough.
func olderThan(n int) string {
	return "--older-than=" + (time.Since(time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -n)) -
		time.Second).Truncate(time.Second).String()
}

const anOrderADay = `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at)
	SELECT 'orders', (g % 3)::text, 'e', jsonb_build_object('n', g), now() - (g % 7) * interval '1 day'
		FROM generate_series(1, 700) g`

func (b *bed) prunePartitions(code int, args ...string) prunedTable {
	b.Helper()
	r := invoke(b.T, b.env, append([]string{"prune", "--partitions", "--json", "--batch=30", "--wait=40s"}, args...)...)
	require.Equal(b, code, r.code, r.all())
	var report []*prune.Table
	require.NoError(b, json.Unmarshal([]byte(r.stdout), &report), r.all())
	return prunedTable{report[0]}
}

// prunedTable is what prune said about the only table.
type prunedTable struct{ *prune.Table }

func (p prunedTable) states() map[string]string {
	m := map[string]string{}
	for _, q := range p.Partitions {
		m[q.Partition] = q.State
		if q.Kept != "" {
			m[q.Partition] = q.Kept
		}
	}
	return m
}

// TestPrunePartitions: what is wholly of the past goes, and comes back from the archive; the rest stays in the
// publication.
//
// Bug (rows): `prune --partitions` reported "0 rows" for kept partitions whose rows it had not counted. Cost: full
// partitions that look empty.
func TestPrunePartitions(t *testing.T) {
	db := testkit.Postgres(t)
	b := newBed(t, db, "orders.events", "before", "after")
	byDay(t, db)
	require.Equal(t, 0, invoke(t, b.env, "setup").code)
	c := start(t, b.env)
	c.awaitReady(200)
	db.Exec(t, anOrderADay)
	require.Len(t, b.records("orders.events", 700), 700)
	midnight := time.Now().UTC().Truncate(24 * time.Hour)
	r := invoke(t, b.env, "replay", "--until="+midnight.AddDate(0, 0, -3).Format(time.RFC3339), "--topic=before",
		"--rate=0")
	require.Equal(t, 0, r.code, r.all())
	old := number(t, db, "SELECT count(*) FROM outbox WHERE created_at < date_trunc('day', now() AT TIME ZONE 'UTC') "+
		"AT TIME ZONE 'UTC' - interval '3 days'")
	age := olderThan(3)

	dry := b.prunePartitions(0, age, "--dry-run")
	require.EqualValues(t, old, dry.Rows)
	require.EqualValues(t, 700, number(t, db, "SELECT count(*) FROM outbox"), "a dry run drops nothing")
	listed := invoke(t, b.env, append([]string{"prune", "--partitions", "--dry-run"}, age)...)
	require.Regexp(t, `(?m)^public\.outbox_next: \d+ bytes, kept: `, listed.stdout,
		"what was not counted has no number")
	require.Regexp(t, `(?m)^public\.outbox_4: 100 rows, \d+ bytes, would be dropped$`, listed.stdout)
	dir := t.TempDir()
	done := b.prunePartitions(0, age, "--archive="+dir)
	require.EqualValues(t, old, done.Deleted)
	states := done.states()
	for _, gone := range []string{"public.outbox_4", "public.outbox_5", "public." + oddLeaf} {
		require.Equal(t, "dropped", states[gone], "%v", states)
	}
	require.Contains(t, states["public.outbox_3"], "reaches to")
	require.Contains(t, states["public.outbox_next"], "no end")
	require.Equal(t, 700-old, number(t, db, "SELECT count(*) FROM outbox"))
	published := "SELECT count(*) FROM pg_publication_tables WHERE pubname = '" + db.Publication + "'"
	require.EqualValues(t, 1, number(t, db, published))

	paths, err := filepath.Glob(filepath.Join(dir, "*"+archive.Suffix))
	require.NoError(t, err)
	require.Len(t, paths, 3)
	args := []string{"replay", "--topic=after", "--rate=0"}
	for _, p := range paths {
		args = append(args, "--from-archive="+p)
	}
	r = invoke(t, b.env, args...)
	require.Equal(t, 0, r.code, r.all())
	before, after := map[string]int{}, map[string]int{}
	for _, rec := range b.records("before", old) {
		before[content(rec)]++
	}
	for _, rec := range b.records("after", old) {
		after[content(rec)]++
	}
	require.Equal(t, before, after)
	db.Exec(t, anOrderADayButNoneOld)
	require.Len(t, b.records("orders.events", 703), 703, "the connector goes on")
	require.Empty(t, b.prunePartitions(0, age).Deleted)
	require.Equal(t, 0, c.stop(syscall.SIGTERM))

	// Without publish_via_partition_root partitions are tables of their own, each in the configuration: nothing is
	// dropped.
	db.Exec(t, `ALTER PUBLICATION `+db.Publication+` SET (publish_via_partition_root = false)`)
	require.EqualValues(t, 5, number(t, db, published))
	r = invoke(t, b.env, "prune", "--partitions", olderThan(1))
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stderr, "publish_via_partition_root = true")
	b.env = append(b.env, "CDC_OUTBOX_POSTGRES_TABLES="+
		"public.outbox_1,public.outbox_2,public.outbox_3,public.outbox_now,public.outbox_next")
	c = start(t, b.env)
	c.awaitReady(200)
	r = invoke(t, b.env, "prune", "--partitions", olderThan(1))
	require.Equal(t, 2, r.code, r.all())
	require.Contains(t, r.stderr, "name the partitioned table")
	require.Equal(t, 0, c.stop(syscall.SIGTERM))
}

const anOrderADayButNoneOld = `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) SELECT 'orders',
	'1', 'e', '{}' FROM generate_series(1, 3)`

// TestPrunePartitionsGoesOn from wherever another run ended.
func TestPrunePartitionsGoesOn(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, postgres.Options{}) // its transactions stay open
	b := newBed(t, db, "orders.events")
	byDay(t, db)
	require.Equal(t, 0, invoke(t, b.env, "setup").code)
	c := start(t, b.env)
	c.awaitReady(200)
	db.Exec(t, anOrderADay)
	b.records("orders.events", 700)

	// Another session uses the table: to detach concurrently waits, and the run is killed.
	held, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer func() { _ = held.Close(context.Background()) }()
	_, err = held.Exec(t.Context(), "BEGIN; LOCK TABLE outbox IN ACCESS SHARE MODE")
	require.NoError(t, err)
	cmd := command(t.Context(), b.env, "prune", "--partitions", olderThan(2))
	require.NoError(t, cmd.Start())
	pending := `SELECT count(*) FROM pg_inherits WHERE inhparent = 'outbox'::regclass AND inhdetachpending`
	require.Eventually(t, func() bool { return number(t, db, pending) == 1 }, 30*time.Second, 50*time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	db.Exec(t, anOrderADayButNoneOld) // writers go on meanwhile
	_, err = held.Exec(t.Context(), "COMMIT")
	require.NoError(t, err)
	// One that is out, and has rows that a transaction wrote late.
	db.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%DETACH PARTITION%'
		AND datname = current_database() AND pid <> pg_backend_pid()`)
	require.Eventually(t, func() bool {
		return number(t, db, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'ALTER TABLE%DETACH PARTITION%'
			AND datname = current_database() AND state = 'active'`) == 0
	}, 30*time.Second, 20*time.Millisecond)
	done := b.prunePartitions(0, olderThan(2))
	for name, state := range done.states() {
		if name == "public.outbox_4" || name == "public.outbox_5" || strings.Contains(name, "a.rt") {
			require.Equal(t, "dropped", state)
		}
	}
	require.EqualValues(t, 0, number(t, db, `SELECT count(*) FROM pg_class WHERE relname IN ('outbox_4', 'outbox_5')`))

	// What another run detached, is dropped when everything in it is published, and not before.
	db.Exec(t, fmt.Sprintf(`COMMENT
		ON TABLE outbox_2 IS 'cdc-outbox prune takes this table out of the partitioned table with oid %d and drops it'`,
		number(t, db, `SELECT 'outbox'::regclass::oid::bigint`)))
	db.Exec(t, `ALTER TABLE outbox DETACH PARTITION outbox_2`)
	_, err = held.Exec(t.Context(), "BEGIN; INSERT INTO outbox_2 (aggregate_type, aggregate_id, created_at) VALUES "+
		"('orders', '1', now() - interval '9 days')")
	require.NoError(t, err)
	r := invoke(t, b.env, "prune", "--partitions", olderThan(1), "--wait=6s")
	require.Equal(t, 1, r.code, r.all())
	require.Contains(t, r.stderr, "no lock within")
	_, err = held.Exec(t.Context(), "COMMIT")
	require.NoError(t, err)
	require.Equal(t, "dropped", b.prunePartitions(0, olderThan(1)).states()["public.outbox_2"])
	require.Equal(t, 0, c.stop(syscall.SIGTERM))
}

// TestPrunePartitionsRefuses what is not certain: the default partition, prepared transactions, late rows, a stopped
// connector.
func TestPrunePartitionsRefuses(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, postgres.Options{}) // its transactions stay open
	b := newBed(t, db, "orders.events")
	r := invoke(t, b.env, "setup", "--table")
	require.Equal(t, 0, r.code, r.all())
	r = invoke(t, b.env, "prune", "--partitions", "--older-than=1h")
	require.Equal(t, 2, r.code, r.all())
	require.Contains(t, r.stderr, "not partitioned")
	require.Equal(t, 0, invoke(t, b.env, "teardown", "--table", "--yes").code)
	byDay(t, db)
	db.Exec(t, `CREATE TABLE outbox_rest PARTITION OF outbox DEFAULT`)
	require.Equal(t, 0, invoke(t, b.env, "setup").code)
	c := start(t, b.env)
	c.awaitReady(200)
	db.Exec(t, anOrderADay)
	b.records("orders.events", 700)
	for leaf, gid := range map[string]string{"outbox_4": "a'b", "outbox_5": "c"} {
		conn, err := db.Connect(t.Context(), db.Name)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), fmt.Sprintf(`BEGIN;
			INSERT INTO %s (id, aggregate_type, aggregate_id, event_type, payload, created_at)
			SELECT gen_random_uuid(), aggregate_type, 'late', event_type, payload, created_at FROM %[1]s LIMIT 1;
			PREPARE TRANSACTION '%s'`, leaf, strings.ReplaceAll(gid, "'", "''")))
		require.NoError(t, err)
		require.NoError(t, conn.Close(t.Context()))
		t.Cleanup(func() {
			_ = db.Server.Exec(context.Background(), db.Name, "ROLLBACK PREPARED '"+strings.ReplaceAll(gid, "'", "''")+
				"'")
		})
	}
	p := b.prunePartitions(3, olderThan(2))
	require.Contains(t, p.states()["public.outbox_4"], "a'b")
	require.Contains(t, p.states()["public.outbox_5"], "prepared")
	require.Contains(t, p.states()["public.outbox_rest"], "default")
	require.Contains(t, p.states()["public."+oddLeaf], "prepared", "it would need the root for itself")
	db.Exec(t, `COMMIT PREPARED 'c'`)
	b.prunePartitions(3, olderThan(2))
	require.EqualValues(t, 1, number(t, db, `SELECT count(*) FROM pg_class WHERE relname = 'outbox_3'`))
	db.Exec(t, `ROLLBACK PREPARED 'a''b'`)
	p = b.prunePartitions(0, olderThan(2))
	require.Equal(t, "dropped", p.states()["public.outbox_5"])
	require.Len(t, b.records("orders.events", 701), 701)

	// A row that was not visible yet when the partition is looked at is seen before it is dropped.
	held, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer func() { _ = held.Close(context.Background()) }()
	_, err = held.Exec(t.Context(), "BEGIN; INSERT INTO outbox_2 (id, aggregate_type, aggregate_id, created_at) "+
		"SELECT gen_random_uuid(), 'orders', '1', created_at FROM outbox_2 LIMIT 1")
	require.NoError(t, err)
	waits := make(chan struct{})
	go func() {
		defer close(waits)
		assert.Eventually(t, func() bool {
			return number(t, db, `SELECT count(*) FROM pg_locks
				WHERE NOT granted AND relation = 'outbox_2'::regclass`) > 0
		}, time.Minute, 20*time.Millisecond)
		_, _ = held.Exec(t.Context(), "COMMIT")
	}()
	p = b.prunePartitions(0, olderThan(1))
	<-waits
	require.Contains(t, p.states()["public.outbox_2"], "came in meanwhile")
	require.EqualValues(t, 101, number(t, db, `SELECT count(*) FROM outbox_2`))

	require.Equal(t, 0, c.stop(syscall.SIGTERM))
	r = invoke(t, b.env, "prune", "--partitions", olderThan(1), "--wait=2s")
	require.Equal(t, 3, r.code, r.all())
	require.EqualValues(t, 1, number(t, db, `SELECT count(*) FROM pg_class WHERE relname = 'outbox_2'`))
}

// TestPrunePartitionsUnderLoad: writers of new rows and of late ones, with and without a default partition, while
// partitions are dropped. No writer fails but over a range that was dropped, and all that was committed is in Kafka.
func TestPrunePartitionsUnderLoad(t *testing.T) {
	t.Parallel()
	for _, def := range []bool{false, true} {
		t.Run(fmt.Sprintf("default=%v", def), func(t *testing.T) {
			db := testkit.DedicatedPostgres(t, postgres.Options{}) // its transactions stay open
			b := newBed(t, db, "orders.events")
			byDay(t, db)
			if def {
				db.Exec(t, `CREATE TABLE outbox_rest PARTITION OF outbox DEFAULT`)
			}
			require.Equal(t, 0, invoke(t, b.env, "setup").code)
			c := start(t, b.env)
			c.awaitReady(200)
			db.Exec(t, anOrderADay)
			stop := make(chan struct{})
			var writers sync.WaitGroup
			var committed, gone atomic.Int64
			committed.Store(700)
			for w := range 4 {
				conn, err := db.Connect(t.Context(), db.Name)
				require.NoError(t, err)
				writers.Go(func() {
					defer func() { _ = conn.Close(context.Background()) }()
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						age := 0
						if w == 3 {
							age = 3 + i%3
						}
						_, err := conn.Exec(t.Context(), fmt.Sprintf(`BEGIN;
							INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at)
							SELECT 'orders', '%d', 'e', '{}', now() - interval '%d days' FROM generate_series(1, 5);
							SELECT pg_sleep(%f); COMMIT`, w, age, float64(i%5)*0.01))
						switch {
						case err == nil:
							committed.Add(5)
						case strings.Contains(err.Error(), "no partition of relation"):
							gone.Add(1)
							if _, err = conn.Exec(t.Context(), "ROLLBACK"); err == nil {
								continue
							}
							fallthrough
						default:
							t.Error(err)
							return
						}
					}
				})
			}
			require.Eventually(t, func() bool { return committed.Load() >= 900 }, time.Minute, 10*time.Millisecond)
			for _, age := range []string{olderThan(4), olderThan(3)} {
				r := invoke(t, b.env, "prune", "--partitions", "--wait=15s", age)
				require.Contains(t, []int{0, 1}, r.code, r.all()) // 1: no lock under this load
				t.Logf("%s", r.stdout)
			}
			close(stop)
			writers.Wait()
			t.Logf("%d rows committed, %d writers found no partition", committed.Load(), gone.Load())
			p := b.prunePartitions(0, olderThan(2))
			for _, q := range p.Partitions {
				if strings.HasSuffix(q.Partition, "_4") || strings.HasSuffix(q.Partition, "_5") {
					require.True(t, q.Dropped, "%+v", q)
				}
			}
			ids := map[string]bool{}
			for _, rec := range b.records("orders.events", committed.Load()) {
				ids[header(rec, "id")] = true
			}
			require.EqualValues(t, committed.Load(), len(ids))
			require.Equal(t, 0, c.stop(syscall.SIGTERM))
		})
	}
}
