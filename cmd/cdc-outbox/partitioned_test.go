package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// partitionedBed has an outbox that is configured by its root.
func partitionedBed(t *testing.T, version string) *bed {
	b := newBed(t, testkit.Postgres(t, version), "orders.events")
	b.db.Exec(t, `CREATE TABLE outbox (id int, aggregate_type text NOT NULL, aggregate_id text NOT NULL,
		event_type text NOT NULL, payload jsonb, headers jsonb,
		created_at timestamptz NOT NULL DEFAULT now()) PARTITION BY RANGE (id);
		CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES
			FROM (0) TO (100); CREATE TABLE outbox_2 PARTITION OF outbox FOR VALUES FROM (100) TO (200)`)
	return b
}

// row inserts an event into the root or a partition.
func (b *bed) row(table string, id int) {
	b.db.Exec(b.T, fmt.Sprintf(`INSERT INTO %s VALUES (%d, 'orders', '%d', 'created', '{}')`, table, id, id))
}

// keys waits for so many records and returns their keys.
func (b *bed) keys(n int64) []string {
	var keys []string
	for _, r := range b.records("orders.events", n) {
		keys = append(keys, string(r.Key))
	}
	return keys
}

// TestPartitionedOutbox: published by its root, whatever becomes of its partitions while the connector runs.
func TestPartitionedOutbox(t *testing.T) {
	t.Parallel()
	for _, version := range testkit.Versions(t, "14", "15", "18") {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			b := partitionedBed(t, version)
			require.Equal(t, 0, invoke(t, b.env, "setup").code)
			r := start(t, b.env, "--monitor-interval=300ms")
			r.awaitReady(http.StatusOK)
			b.row("outbox", 1)
			b.row("outbox_2", 101)
			b.db.Exec(t, `CREATE TABLE outbox_3 PARTITION OF outbox FOR VALUES FROM (200) TO (300)`)
			b.row("outbox", 201)
			b.db.Exec(t, `CREATE TABLE outbox_4 (LIKE outbox INCLUDING DEFAULTS)`)
			if version != "14" { // where pgoutput would remember that it was none: see docs/deploy.md
				b.row("outbox_4", 301) // of a table that is none of the outbox yet
			}
			b.db.Exec(t, `ALTER TABLE outbox ATTACH PARTITION outbox_4 FOR VALUES FROM (300) TO (400)`)
			b.row("outbox", 302)
			b.db.Exec(t, `ALTER TABLE outbox DETACH PARTITION outbox_1`)
			if version != "14" {
				b.row("outbox_1", 2) // nor any more
			}
			b.row("outbox", 202)
			b.db.Exec(t, `DROP TABLE outbox_2`)
			b.db.Exec(t, `CREATE TABLE outbox_5 PARTITION OF outbox FOR VALUES
				FROM (0) TO (200) PARTITION BY RANGE (id);
				CREATE TABLE outbox_5a PARTITION OF outbox_5 DEFAULT`)
			b.row("outbox", 102)
			want := []string{"1", "101", "201", "302", "202", "102"}
			require.Equal(t, want, b.keys(int64(len(want))))
			awaitSessions(t, b.db, 3) // a few checks of the publication
			r.awaitReady(http.StatusOK)
			require.Equal(t, 0, r.stop(syscall.SIGTERM))
			require.Equal(t, want, b.keys(int64(len(want))))
		})
	}
}

// TestPartitionedOutboxUnderTheNamesOfItsPartitions: refused by name, with the SQL. What is written that way while the
// connector runs is not lost before it notices.
func TestPartitionedOutboxUnderTheNamesOfItsPartitions(t *testing.T) {
	t.Parallel()
	for _, version := range testkit.Versions(t, "14", "18") {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			b := partitionedBed(t, version)
			set := "ALTER PUBLICATION \"" + b.db.Publication + "\" SET (publish_via_partition_root = %t)"
			b.db.Exec(t, `CREATE PUBLICATION "`+b.db.Publication+`" FOR TABLE outbox WITH (publish = 'insert')`)
			b.db.Exec(t, `SELECT pg_create_logical_replication_slot('`+b.db.Slot+`', 'pgoutput')`)
			b.row("outbox", 1)
			for _, command := range []string{"check", "setup", "run"} {
				res := invoke(t, b.env, command)
				require.Equal(t, 3, res.code, command)
				require.Contains(t, res.all(), "under the names of its partitions", command)
				require.Contains(t, strings.NewReplacer(`\"`, `"`).Replace(res.all()), fmt.Sprintf(set, true), command)
			}
			b.db.Exec(t, fmt.Sprintf(set, true))
			// It is not ready from one check to the next, and then it ends: time enough to be seen.
			r := start(t, b.env, "--monitor-interval=3s")
			r.awaitReady(http.StatusOK)
			b.row("outbox", 101)
			b.db.Exec(t, fmt.Sprintf(set, false))
			b.row("outbox", 102)
			require.Eventually(t, func() bool {
				code, why := r.get("/readyz")
				return code == http.StatusServiceUnavailable &&
					strings.Contains(why, "under the names of its partitions")
			}, 30*time.Second, 20*time.Millisecond)
			<-r.done
			require.Equal(t, 3, r.cmd.ProcessState.ExitCode())
			keys := b.keys(3)
			slices.Sort(keys)
			require.Equal(t, []string{"1", "101", "102"}, slices.Compact(keys), "nothing is missing")
		})
	}
}
