package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/tools/archive"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/prune"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
)

func number(t *testing.T, db *testkit.Database, sql string) (n int64) {
	t.Helper()
	conn, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

const oldOrders = `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at)
	SELECT 'orders', (g % 3)::text, 'e', '{}', now() - interval '10 days' FROM generate_series(1, 300) g`

// TestPruneDeletesNothingUnconfirmed: rows that look old and are committed late, prepared transactions, a connector
// that does not run, a slot that was re-created.
func TestPruneDeletesNothingUnconfirmed(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, postgres.Options{}) // its transactions stay open
	b := newBed(t, db, "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	c := start(t, b.env)
	c.awaitReady(200)
	db.Exec(t, oldOrders)
	held, err := db.Connect(t.Context(), db.Name)
	require.NoError(t, err)
	defer func() { _ = held.Close(context.Background()) }()
	for _, sql := range []string{"BEGIN", "SAVEPOINT a", oldOrders, "RELEASE a"} {
		_, err = held.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	db.Exec(t, `SET synchronous_commit = off; `+oldOrders)
	r := invoke(t, b.env, "prune", "--older-than=7d", "--dry-run")
	require.Equal(t, 0, r.code, r.all())
	require.EqualValues(t, 600, number(t, db, "SELECT count(*) FROM outbox"))

	command := []string{"prune", "--older-than=7d", "--batch=64", "--pause=0s", "--wait=20s"}
	r = invoke(t, b.env, command...)
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "300 deleted", "after the open transaction nothing is certain")
	_, err = held.Exec(t.Context(), "COMMIT")
	require.NoError(t, err)
	r = invoke(t, b.env, append(command, "--json")...)
	require.Equal(t, 0, r.code, r.all())
	var report []prune.Table
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &report))
	require.EqualValues(t, 600, report[0].Deleted)
	require.EqualValues(t, 0, number(t, db, "SELECT count(*) FROM outbox"))
	require.Len(t, b.records("orders.events", 900), 900)

	// A prepared transaction is as open as any other, also when the session that began it has ended.
	_, err = held.Exec(t.Context(), "BEGIN; "+oldOrders+"; PREPARE TRANSACTION 'late'")
	require.NoError(t, err)
	defer func() { _ = db.Server.Exec(context.Background(), db.Name, "ROLLBACK PREPARED 'late'") }()
	db.Exec(t, oldOrders)
	r = invoke(t, b.env, command...)
	require.Equal(t, 0, r.code, r.all())
	require.EqualValues(t, 300, number(t, db, "SELECT count(*) FROM outbox"),
		"what was committed after it is not certain")
	db.Exec(t, "COMMIT PREPARED 'late'")
	require.Len(t, b.records("orders.events", 1500), 1500)
	r = invoke(t, b.env, command...)
	require.Equal(t, 0, r.code, r.all())
	require.EqualValues(t, 0, number(t, db, "SELECT count(*) FROM outbox"))

	require.Equal(t, 0, c.stop(syscall.SIGTERM))
	db.Exec(t, oldOrders)
	db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		VALUES ('orders', '1', 'e', '{}')`)
	r = invoke(t, b.env, "prune", "--older-than=7d", "--wait=2s")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stderr, "Start the connector")
	db.Exec(t, `SELECT pg_drop_replication_slot('`+db.Slot+`')`)
	require.Equal(t, 3, invoke(t, b.env, "prune", "--older-than=7d", "--wait=2s").code)
	db.Exec(t, `SELECT pg_create_logical_replication_slot('`+db.Slot+`', 'pgoutput')`)
	r = invoke(t, b.env, "prune", "--older-than=7d", "--wait=2s")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stderr, "beyond the last confirmed position")
	db.Exec(t, `DROP TABLE cdc_outbox_slots`)
	r = invoke(t, b.env, "prune", "--older-than=7d", "--wait=2s")
	require.Equal(t, 3, r.code, r.all())
	require.EqualValues(t, 301, number(t, db, "SELECT count(*) FROM outbox"))
	for _, args := range [][]string{
		{"prune"},
		{"prune", "--older-than=soon"},
		{"prune", "--older-than=-1h"},
		{"prune", "--older-than=1h", "--archive=/nowhere/at/all"},
	} {
		require.Equal(t, 2, invoke(t, b.env, args...).code, args)
	}
}

// TestPruneUnderLoad: writers that commit at once, late and not at all, with timestamps of days ago, while rows are
// deleted again and again. Whatever was committed is in Kafka in the end.
func TestPruneUnderLoad(t *testing.T) {
	t.Parallel()
	db := testkit.DedicatedPostgres(t, postgres.Options{}) // its transactions stay open
	b := newBed(t, db, "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	c := start(t, b.env)
	c.awaitReady(200)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	committed := make([]int64, 4)
	for w := range committed {
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
				end := "COMMIT"
				if i%5 == 4 {
					end = "ROLLBACK"
				}
				_, err := conn.Exec(t.Context(), fmt.Sprintf(`BEGIN; SET LOCAL synchronous_commit = off;
					INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at)
					SELECT 'orders', '%d', 'e', '{}', now() - interval '10 days' FROM generate_series(1, 5);
					SELECT pg_sleep(%f); %s`, w, float64(i%7)*0.03*float64(w), end))
				if err != nil {
					t.Error(err)
					return
				}
				if end == "COMMIT" {
					committed[w] += 5
				}
			}
		})
	}
	deleted := int64(0)
	for range 3 {
		r := invoke(t, b.env, "prune", "--older-than=1d", "--batch=100", "--pause=1ms", "--json")
		require.Equal(t, 0, r.code, r.all())
		var report []prune.Table
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &report))
		deleted += report[0].Deleted
	}
	require.Positive(t, deleted)
	close(stop)
	writers.Wait()
	all := int64(0)
	for _, n := range committed {
		all += n
	}
	ids := map[string]bool{}
	for _, rec := range b.records("orders.events", all) {
		ids[header(rec, "id")] = true
	}
	require.EqualValues(t, all, len(ids))
	require.Equal(t, all-deleted, number(t, db, "SELECT count(*) FROM outbox"))
	require.Equal(t, 0, c.stop(syscall.SIGTERM))
}

// TestArchiveAndBack: what was deleted is in files that are read back as the same records.
func TestArchiveAndBack(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	b := newBed(t, db, "orders.events", "before", "after")
	db.Exec(t, odd)
	require.Equal(t, 0, invoke(t, b.env, "setup").code)
	c := start(t, b.env)
	c.awaitReady(200)
	db.Exec(t, hostile)
	db.Exec(t, "DELETE FROM outbox WHERE aggregate_id = ''; UPDATE outbox SET created_at = now() - interval '9 days' "+
		"WHERE aggregate_id IN ('untimed', '{a,b}')")
	db.Exec(t, oldOrders)
	db.Exec(t, "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('orders', 'new', "+
		"'e', '{}')")
	r := invoke(t, b.env, "replay", "--until="+time.Now().Add(-24*time.Hour).UTC().Format(time.RFC3339),
		"--topic=before", "--rate=0")
	require.Equal(t, 0, r.code, r.all())
	dir := t.TempDir()
	r = invoke(t, b.env, "prune", "--older-than=1d", "--archive="+dir, "--batch=50", "--pause=0s")
	require.Equal(t, 0, r.code, r.all())
	require.EqualValues(t, 1, number(t, db, "SELECT count(*) FROM outbox"))
	require.Equal(t, 0, invoke(t, b.env, "prune", "--verify-archive="+dir).code)
	paths, err := filepath.Glob(filepath.Join(dir, "*"+archive.Suffix))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	r = invoke(t, b.env, "replay", "--from-archive="+paths[0], "--topic=after", "--rate=0")
	require.Equal(t, 0, r.code, r.all())
	before, after := b.records("before", 305), b.records("after", 305)
	require.Len(t, after, len(before))
	for i := range before {
		require.Equal(t, content(before[i]), content(after[i]))
	}
	require.NoError(t, os.Truncate(paths[0], 100))
	r = invoke(t, b.env, "prune", "--verify-archive="+dir)
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stdout, "damaged: ")
	require.Contains(t, r.stderr, "1 of 1 files are damaged")
	require.Equal(t, 3, invoke(t, b.env, "replay", "--from-archive="+paths[0], "--topic=after").code)
	require.Len(t, b.records("after", 305), 305, "nothing of a damaged file is published")
	require.Equal(t, 0, c.stop(syscall.SIGTERM))
}

// TestPruneAndReplayPartitions: a partitioned outbox is read, archived and deleted from by its root.
func TestPruneAndReplayPartitions(t *testing.T) {
	db := testkit.Postgres(t)
	b := newBed(t, db, "orders.events", "before", "after")
	db.Exec(t, `CREATE TABLE outbox (id uuid DEFAULT gen_random_uuid(), aggregate_type text, aggregate_id text,
		event_type text, payload jsonb, headers jsonb,
		created_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (id, created_at)) PARTITION BY RANGE (created_at);
		CREATE TABLE outbox_new PARTITION OF outbox DEFAULT`)
	day := time.Now().UTC().Add(-9 * 24 * time.Hour).Format("2006-01-02")
	db.Exec(t, `CREATE TABLE outbox_old PARTITION OF outbox FOR VALUES FROM (MINVALUE) TO ('`+day+`')`)
	require.Equal(t, 0, invoke(t, b.env, "setup").code)
	c := start(t, b.env)
	c.awaitReady(200)
	db.Exec(t, oldOrders)
	db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at) SELECT 'orders', '1',
		'e', '{}', now() - g * interval '1 day' FROM generate_series(0, 9) g`)
	r := invoke(t, b.env, "replay", "--until="+time.Now().Add(-36*time.Hour).UTC().Format(time.RFC3339),
		"--topic=before", "--rate=0")
	require.Equal(t, 0, r.code, r.all())
	dir := t.TempDir()
	r = invoke(t, b.env, "prune", "--older-than=36h", "--archive="+dir, "--batch=50", "--pause=0s")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "308 deleted")
	require.EqualValues(t, 2, number(t, db, "SELECT count(*) FROM outbox"))
	paths, err := filepath.Glob(filepath.Join(dir, "*"+archive.Suffix))
	require.NoError(t, err)
	r = invoke(t, b.env, "replay", "--from-archive="+paths[0], "--topic=after", "--rate=0")
	require.Equal(t, 0, r.code, r.all())
	before, after := b.records("before", 308), b.records("after", 308)
	for i := range before {
		require.Equal(t, content(before[i]), content(after[i]))
	}
	require.Equal(t, 0, c.stop(syscall.SIGTERM))
}
