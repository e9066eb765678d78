package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// insertNumbered inserts the rows from to to, of five keys.
func insertNumbered(b *bed, from, to int) {
	b.Helper()
	b.db.Exec(b, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		SELECT 'orders', (g %% 5)::text, 'created', jsonb_build_object('n', g)
		FROM generate_series(%d, %d) g`, from, to))
}

// inOrder requires each of the rows once, in the order of their numbers per key.
func inOrder(b *bed, rows int) {
	b.Helper()
	last, seen := map[string]int{}, map[int]bool{}
	for _, r := range b.records("orders.events", int64(rows)) {
		n := 0
		_, err := fmt.Sscanf(string(r.Value), `{"n": %d}`, &n)
		require.NoError(b, err, "%s", r.Value)
		require.False(b, seen[n], "%d came twice", n)
		require.Greater(b, n, last[string(r.Key)])
		seen[n], last[string(r.Key)] = true, n
	}
	require.Len(b, seen, rows)
}

// TestALostSlotIsHealed: rows that a lost slot would have brought are published before anything else, once and in
// order, and the gap is settled with their number; at a start, and while the slot is read.
func TestALostSlotIsHealed(t *testing.T) {
	t.Parallel()
	for _, delivery := range []string{"at_least_once", "exactly_once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, testkit.Postgres(t), "orders.events")
			b.env = append(b.env, "CDC_OUTBOX_DELIVERY="+delivery, "CDC_OUTBOX_ON_GAP=heal")
			require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
			drop := "SELECT pg_drop_replication_slot('" + b.db.Slot + "')"
			r := start(t, b.env)
			r.awaitReady(http.StatusOK)
			insertNumbered(b, 1, 20)
			b.db.Exec(t, "UPDATE outbox SET created_at = now() - interval '1 day' WHERE payload->>'n' = '1'")
			b.records("orders.events", 20)
			require.Equal(t, 0, r.stop(syscall.SIGTERM))

			insertNumbered(b, 21, 23)
			b.db.Exec(t, drop)
			insertNumbered(b, 24, 25)
			r = start(t, b.env)
			r.awaitReady(http.StatusOK)
			insertNumbered(b, 26, 27)
			inOrder(b, 27)
			awaitSQL(b, `SELECT missing = 5 AND published = 5 AND settled_how = 'repaired' FROM cdc_outbox_gaps
				WHERE cause = 'slot_recreated'`)
			r.awaitText("the rows that Kafka does not have are published before it is read")

			// Of this slot only: in one WHERE the server may ask for the others first, of tests beside this one.
			awaitSQL(b, `WITH own AS MATERIALIZED (SELECT slot_name, active_pid FROM pg_replication_slots
					WHERE slot_name = '`+b.db.Slot+`')
				SELECT pg_drop_replication_slot(slot_name) IS NOT NULL FROM own
				WHERE active_pid IS NULL OR pg_terminate_backend(active_pid, 60000)`)
			insertNumbered(b, 28, 30)
			r.awaitText("the slot was lost while it was read")
			inOrder(b, 30)
			awaitSQL(b, `SELECT count(*) = 2 AND bool_and(settled_at IS NOT NULL) FROM cdc_outbox_gaps
				WHERE cause <> 'none'`)
			r.awaitReady(http.StatusOK)
			require.Equal(t, 0, r.stop(syscall.SIGTERM))
			require.Contains(t, invoke(t, b.env, "check").stdout, "0 to fix")
			require.Contains(t, invoke(t, b.env, "repair", "--dry-run").stdout, "30 rows, 0 of them not in Kafka")
		})
	}
}

// TestAHealIsRefused: where the absence of a row proves nothing, the connector stops, says why and what to do, and
// leaves no slot that keeps WAL.
func TestAHealIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql, says string
	}{
		"a table that keeps nothing": {"DELETE FROM outbox", "rows of the gap may have been deleted, too"},
		"no row from before":         {"DELETE FROM outbox WHERE payload->>'n' = '1'", "no row from before the gap"},
		"nothing keeps gaps":         {"DROP TABLE cdc_outbox_gaps", "cdc_outbox_gaps does not exist"},
		"it is not known since when": {
			"UPDATE cdc_outbox_gaps SET from_lsn = '0/1', to_lsn = '0/1', cause = 'kafka_lost', from_at = NULL",
			"it is not known when it began",
		},
		"records were removed": {"", "its older records were removed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, testkit.Postgres(t), "orders.events")
			b.env = append(b.env, "CDC_OUTBOX_ON_GAP=heal")
			require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
			insertNumbered(b, 1, 5)
			b.db.Exec(t, "UPDATE outbox SET created_at = now() - interval '1 day' WHERE payload->>'n' = '1'")
			r := start(t, b.env)
			b.records("orders.events", 5)
			require.Equal(t, 0, r.stop(syscall.SIGTERM))
			b.db.Exec(t, "SELECT pg_drop_replication_slot('"+b.db.Slot+"')")
			b.db.Exec(t, c.sql)
			if c.sql == "" {
				b.emptyTopic("orders.events")
				b.db.Exec(t, insertOneOrder)
			}
			for range 2 { // the second one finds what the first one has left
				end := invoke(t, b.env, "run", "--http-listen=off")
				require.Equal(t, 3, end.code, end.all())
				require.Contains(t, end.stderr, "on_gap: heal does not heal it")
				require.Contains(t, end.stderr, c.says)
				require.Contains(t, end.stderr, "cdc-outbox slot recreate --yes-lose-events")
				awaitSQL(b, "SELECT count(*) = 0 FROM pg_replication_slots WHERE slot_name = '"+b.db.Slot+"'")
				awaitSQL(b, "SELECT to_regclass('cdc_outbox_snapshot_"+b.db.Slot+"') IS NULL")
			}
			require.Equal(t, 0, invoke(t, b.env, "slot", "recreate", "--yes-lose-events").code)
			r = start(t, b.env)
			r.awaitReady(http.StatusOK)
			require.Equal(t, 0, r.stop(syscall.SIGTERM))
		})
	}
}

// TestARoleWithFewRightsHeals: the role that setup makes has the rights that a heal takes, and a role without one
// learns which it is.
func TestARoleWithFewRightsHeals(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "orders.events")
	b.env = append(b.env, "CDC_OUTBOX_ON_GAP=heal")
	role := b.db.Slot + "_role"
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table", "--role", role).code)
	t.Cleanup(func() {
		require.NoError(t, b.db.Server.Exec(context.Background(), b.db.Name,
			"REASSIGN OWNED BY "+role+" TO postgres; DROP OWNED BY "+role+"; DROP ROLE "+role))
	})
	dsn, err := url.Parse(b.db.DSN)
	require.NoError(t, err)
	dsn.User = url.User(role)
	insertNumbered(b, 1, 5)
	b.db.Exec(t, "UPDATE outbox SET created_at = now() - interval '1 day' WHERE payload->>'n' = '1'")
	env := append(b.env, "CDC_OUTBOX_POSTGRES_DSN="+dsn.String())
	r := start(t, env)
	b.records("orders.events", 5)
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
	insertNumbered(b, 6, 8)
	b.db.Exec(t, "SELECT pg_drop_replication_slot('"+b.db.Slot+"')")
	b.db.Exec(t, "REVOKE CREATE ON SCHEMA public FROM "+role)
	grant := `GRANT CREATE ON SCHEMA "public" TO "` + role + `";`
	check := invoke(t, env, "check")
	require.Contains(t, check.stdout, grant)
	require.Contains(t, check.stdout, "Start the connector: on_gap: heal replaces the slot")
	end := invoke(t, env, "run", "--http-listen=off")
	require.Equal(t, 3, end.code, end.all())
	require.Contains(t, end.stderr, strings.ReplaceAll(grant, `"`, `\"`))
	b.db.Exec(t, grant)
	r = start(t, env)
	inOrder(b, 8)
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
	require.Contains(t, invoke(t, env, "repair", "--dry-run").stdout, "8 rows, 0 of them not in Kafka")
}
