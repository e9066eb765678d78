package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// newPollingBed is newBed for source: polling.
func newPollingBed(t *testing.T, topics ...string) *bed {
	t.Helper()
	db := testkit.Postgres(t)
	kafka, address := newBroker(t, topics...)
	_, port := deafAddress(t)
	return &bed{T: t, db: db, kafka: kafka, env: []string{
		"CDC_OUTBOX_SOURCE=polling", "CDC_OUTBOX_POSTGRES_DSN=" + db.DSN, "CDC_OUTBOX_KAFKA_BROKERS=" + address,
		"CDC_OUTBOX_MONITOR_INTERVAL=100ms", "CDC_OUTBOX_HTTP_LISTEN=127.0.0.1:" + port,
	}}
}

func (b *bed) insert(key string, from, to int) {
	b.Helper()
	b.db.Exec(b, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		SELECT 'order', '%s', 'x', jsonb_build_object('n', g) FROM generate_series(%d, %d) g`, key, from, to))
}

func TestPollingCommands(t *testing.T) {
	t.Parallel()
	b := newPollingBed(t, "order.events")
	r := invoke(t, b.env, "check")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stdout, "It does not exist")
	require.NotContains(t, r.stdout, "wal_level")
	r = invoke(t, b.env, "run")
	require.Equal(t, 3, r.code, r.all())
	r = invoke(t, b.env, "setup", "--table", "--dry-run")
	require.Equal(t, 0, r.code, r.all())
	for _, want := range []string{"CREATE TABLE", "GENERATED ALWAYS AS IDENTITY", "CREATE INDEX"} {
		require.Contains(t, r.stdout, want)
	}
	require.NotContains(t, r.stdout, "replication_slot")
	r = invoke(t, b.env, "setup", "--table")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "-- Done.")
	r = invoke(t, b.env, "setup", "--table")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "Everything was there")
	b.insert("k", 1, 3)
	r = invoke(t, b.env, "check")
	require.Equal(t, 0, r.code, r.all())

	r = invoke(t, b.env, "status")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "3 rows, the oldest written")
	require.Contains(t, r.stdout, "not running")
	r = invoke(t, b.env, "status", "--json")
	var st polling.Status
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &st))
	require.Equal(t, int64(3), st.Backlog.Rows)
	r = invoke(t, b.env, "status", "--why")
	require.Contains(t, r.stdout, "cdc-outbox run")

	for _, command := range []string{"slot", "slot recreate", "repair"} {
		r = invoke(t, b.env, strings.Fields(command)...)
		require.Equal(t, 2, r.code, r.all())
		require.Contains(t, r.stderr, "source is polling")
	}
	p := start(t, b.env)
	require.Contains(t, p.awaitReady(http.StatusOK), "polling")
	records := b.records("order.events", 3)
	for _, h := range records[0].Headers {
		require.NotEqual(t, "position", h.Key)
	}
	for _, want := range []string{ // a record is in Kafka before the process knows of it
		"cdc_outbox_backlog_rows ", "cdc_outbox_backlog_oldest_seconds ", "cdc_outbox_polling_lanes_halted 0",
		`cdc_outbox_events_published_total{topic="order.events"} 3`,
		`cdc_outbox_alert_firing{alert="backlog",level="warn"} 0`,
	} {
		p.awaitAnswer("/metrics", want)
	}
	_, metrics := p.get("/metrics")
	require.NotContains(t, metrics, "confirmed_lsn")
	require.Equal(t, 0, p.stop(syscall.SIGTERM))

	r = invoke(t, b.env, "replay", "--all")
	require.Equal(t, 0, r.code, r.all())
	for _, h := range b.records("order.events", 6)[5].Headers {
		require.NotEqual(t, "position", h.Key)
	}
	b.insert("k", 4, 5)
	b.db.Exec(t, "UPDATE outbox SET created_at = now() - interval '1 day'")
	r = invoke(t, b.env, "prune", "--older-than", "1h")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "3 rows from before", "rows that are not published stay")
	r = invoke(t, append(b.env, "CDC_OUTBOX_POLLING_ON_PUBLISHED=delete"), "prune", "--older-than", "1h")
	require.Equal(t, 2, r.code, r.all())

	r = invoke(t, b.env, "teardown", "--yes")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "DROP INDEX")
	r = invoke(t, b.env, "teardown", "--yes", "--table")
	require.Equal(t, 0, r.code, r.all())
}

// A relay that is stopped cannot tell that nothing is published. monitor can, and says when it is over.
func TestPollingBacklogAlarm(t *testing.T) {
	t.Parallel()
	b := newPollingBed(t, "order.events")
	b.env = append(b.env, "CDC_OUTBOX_POLLING_WARN_BACKLOG=1s", "CDC_OUTBOX_POLLING_CRITICAL_BACKLOG=6s")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	hook, hooks := webhooks(t)
	watch := startCommand(t, b.env, "monitor", "--http-listen=127.0.0.1:0", "--monitor-webhook="+hook)
	told := func(state, level string) {
		t.Helper()
		for {
			select {
			case e := <-hooks:
				if e["alert"] == "backlog" && e["state"] == state && e["level"] == level {
					return
				}
			case <-time.After(time.Minute):
				require.Fail(t, "not reported", "%s %s", state, level)
			}
		}
	}
	require.Contains(t, watch.awaitReady(http.StatusOK), "watching")
	b.insert("k", 1, 500)
	told("firing", "warn")
	told("firing", "critical")
	_, metrics := watch.get("/metrics")
	require.Contains(t, metrics, "cdc_outbox_backlog_rows 500")
	require.Contains(t, metrics, `cdc_outbox_alert_firing{alert="backlog",level="critical"} 1`)
	r := invoke(t, b.env, "monitor", "--once")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stdout, "500 rows not published")

	p := start(t, b.env)
	b.records("order.events", 500)
	told("resolved", "critical")
	require.Eventually(t, func() bool {
		_, metrics := watch.get("/metrics")
		return strings.Contains(metrics, "cdc_outbox_backlog_rows 0")
	}, 30*time.Second, 50*time.Millisecond)
	r = invoke(t, b.env, "monitor", "--once", "--json")
	require.Equal(t, 0, r.code, r.all())
	var report service.BacklogReport
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &report))
	require.Zero(t, report.Backlog.Rows)
	require.Equal(t, alert.OK, report.Level)
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
	require.Equal(t, 0, watch.stop(syscall.SIGTERM))
}

// Another project's relay, with a column of its own and no sequence: it is stopped, and what it has left comes first.
func TestMigratePollingForeign(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	b := newBed(t, db, "order.events")
	b.env = append(b.env, "CDC_OUTBOX_POSTGRES_SNAPSHOT=initial")
	db.Exec(t, `CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL,
		aggregate_id text NOT NULL,
		event_type text NOT NULL, payload jsonb, headers jsonb, created_at timestamptz NOT NULL DEFAULT now(),
			number bigserial, sent boolean NOT NULL DEFAULT false)`)
	b.insert("k", 1, 10)
	db.Exec(t, "UPDATE outbox SET sent = true WHERE number <= 6") // it has published these
	r := invoke(t, b.env, "migrate", "polling")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stderr, "--unpublished")
	r = invoke(t, b.env, "migrate", "polling", "--unpublished", "not send")
	require.Equal(t, 3, r.code, r.all())
	r = invoke(t, b.env, "migrate", "polling", "--unpublished", "NOT sent", "--dry-run")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "CREATE PUBLICATION")
	r = invoke(t, b.env, "migrate", "polling", "--unpublished", "NOT sent", "--order", "number")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "4 rows are listed")
	b.insert("k", 11, 12)
	p := start(t, b.env)
	records := b.records("order.events", 6)
	for i, rec := range records {
		require.JSONEq(t, fmt.Sprintf(`{"n": %d}`, i+7), string(rec.Value))
	}
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
	r = invoke(t, b.env, "migrate", "polling", "--unpublished", "NOT sent")
	require.Equal(t, 3, r.code, "the slot is in use: "+r.all())
}

// A takeover that was interrupted is continued by a takeover only, never as a snapshot of all rows.
func TestMigratePollingInterrupted(t *testing.T) {
	t.Parallel()
	b := newPollingBed(t, "order.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	b.insert("k", 1, 10)
	b.db.Exec(t, "UPDATE outbox SET published_at = now() WHERE seq <= 6")
	wal := append(b.env, "CDC_OUTBOX_SOURCE=wal", "CDC_OUTBOX_POSTGRES_SNAPSHOT=initial",
		"CDC_OUTBOX_POSTGRES_SLOT="+b.db.Slot, "CDC_OUTBOX_POSTGRES_PUBLICATION="+b.db.Publication)
	list := "cdc_outbox_snapshot_" + b.db.Slot
	b.db.Exec(t, fmt.Sprintf(`CREATE TABLE %[1]s (n bigint PRIMARY KEY, source int NOT NULL, id text NOT NULL);
		COMMENT ON TABLE %[1]s IS 'cdc-outbox: rows taken over from another relay, not listed yet'`,
		list)) // as it is after the first step
	for _, snapshot := range []string{"initial", "never"} {
		r := invoke(t, append(wal, "CDC_OUTBOX_POSTGRES_SNAPSHOT="+snapshot), "run")
		require.Equal(t, 3, r.code, r.all())
		require.Contains(t, r.stderr, "cdc-outbox migrate polling")
	}
	r := invoke(t, wal, "migrate", "polling")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "4 rows are listed")
	r = invoke(t, wal, "migrate", "polling")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "done before")
	p := start(t, wal)
	require.Len(t, b.records("order.events", 4), 4)
	require.Equal(t, 0, p.stop(syscall.SIGTERM))
	r = invoke(t, b.env, "run")
	require.Equal(t, 3, r.code, r.all())
}

// Once the log is read, nothing of the polling configuration leads back to polling: each event would come twice.
//
// Bug (polling): After `migrate polling`, every command with the polling configuration advised `cdc-outbox setup`,
// which added the column again. Cost: each event published twice, from the log and by polling, with both checks green.
func TestMigratePollingHasEndedPolling(t *testing.T) {
	t.Parallel()
	b := newPollingBed(t, "order.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	wal := append(slices.Clone(b.env), "CDC_OUTBOX_SOURCE=wal", "CDC_OUTBOX_POSTGRES_SNAPSHOT=initial",
		"CDC_OUTBOX_POSTGRES_SLOT="+b.db.Slot, "CDC_OUTBOX_POSTGRES_PUBLICATION="+b.db.Publication)
	p := start(t, b.env)
	p.awaitReady(http.StatusOK)
	r := invoke(t, wal, "migrate", "polling", "--dry-run")
	require.Contains(t, r.stdout, `RENAME COLUMN "published_at" TO polled_at`, r.all())
	r = invoke(t, wal, "migrate", "polling")
	require.Equal(t, 0, r.code, r.all())
	const ended = "ended by `cdc-outbox migrate polling`"
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	require.Equal(t, 3, p.cmd.ProcessState.ExitCode())
	require.Contains(t, p.text(), "was ended by")
	require.NotContains(t, p.text(), "cdc-outbox setup` adds", "the retired relay's last words")
	refused := func() {
		t.Helper()
		for _, command := range []string{
			"check", "run", "status", "setup", "setup --dry-run", "setup --table", "prune --older-than 1h",
		} {
			r := invoke(t, b.env, strings.Fields(command)...)
			require.Equal(t, 3, r.code, "%s: %s", command, r.all())
			require.Contains(t, r.all(), ended, command)
			require.Contains(t, r.all(), "source: wal", command)
			require.NotContains(t, r.all(), "cdc-outbox setup", command)
			require.NotContains(t, r.all(), "0001-01-01", command)
			require.NotContains(t, r.all(), "does not answer", command)
		}
	}
	refused()
	b.db.Exec(t, "ALTER TABLE outbox RENAME polled_at TO something_else")
	refused()
	r = invoke(t, b.env, "teardown", "--dry-run")
	require.Equal(t, 0, r.code, r.all())
	for _, want := range []string{`DROP COLUMN "seq"`, `DROP COLUMN "something_else"`, "outbox_unpublished_idx"} {
		require.Contains(t, r.stdout, want)
	}
	const besides = "A relay that polls may be publishing the same rows"
	require.NotContains(t, invoke(t, wal, "check").stdout, besides)
	b.db.Exec(t, "ALTER TABLE outbox RENAME something_else TO published_at")
	require.Contains(t, invoke(t, wal, "check").stdout, besides)
	require.Equal(t, 0, invoke(t, b.env, "check").code, "the rollback")
}

// A slot that is made besides a relay at work brings each event a second time; and one that is made and then not read
// fills the disk.
//
// Bug (polling): `run` from the log started beside a relay that polled the same table, and polling could be set up
// again for a table that is read from the log; only `check` warned. Cost: each event published twice.
func TestRunRefusesATableThatIsPolled(t *testing.T) {
	t.Parallel()
	b := newPollingBed(t, "order.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	wal := append(slices.Clone(b.env), "CDC_OUTBOX_SOURCE=wal", "CDC_OUTBOX_POSTGRES_SLOT="+b.db.Slot,
		"CDC_OUTBOX_POSTGRES_PUBLICATION="+b.db.Publication)
	p := start(t, b.env)
	p.awaitReady(http.StatusOK)
	for _, command := range []string{"run", "check"} {
		r := invoke(t, wal, command)
		require.Equal(t, 3, r.code, "%s: %s", command, r.all())
		require.Contains(t, r.all(), "A relay with source: polling is at work on it (pid ", command)
		require.Contains(t, r.all(), "cdc-outbox migrate polling", command)
	}
	require.Contains(t, invoke(t, wal, "slot").stdout, "there is no slot of this name", "nothing was made")
	require.Contains(t, invoke(t, wal, "check", "--json").stdout, `"code": "polled"`)
	require.Equal(t, 0, p.stop(syscall.SIGTERM))

	q := start(t, wal)
	q.awaitReady(http.StatusOK)
	q.awaitText("may be polled as well")
	r := invoke(t, wal, "check")
	require.Equal(t, 0, r.code, r.all())
	b.insert("k", 1, 3)
	require.Len(t, b.records("order.events", 3), 3)

	for _, command := range []string{"run", "check"} {
		r = invoke(t, b.env, command)
		require.Equal(t, 3, r.code, "%s: %s", command, r.all())
		require.Contains(t, r.all(), "is read from the log", command)
		require.NotContains(t, r.all(), "cdc-outbox setup", command)
	}
	b.db.Exec(t, "ALTER TABLE outbox DROP COLUMN published_at, DROP COLUMN seq") // as if polling had never been
	for _, command := range []string{"run", "check", "setup", "setup --dry-run"} {
		r = invoke(t, b.env, strings.Fields(command)...)
		require.Equal(t, 3, r.code, "%s: %s", command, r.all())
		require.Contains(t, r.all(), "is read from the log", command)
		require.NotContains(t, r.all(), "cdc-outbox setup", command)
	}
	require.Len(t, b.records("order.events", 3), 3)
	require.Equal(t, 0, q.stop(syscall.SIGTERM))
	require.Equal(t, 0, invoke(t, b.env, "setup").code, "the rollback")
}
