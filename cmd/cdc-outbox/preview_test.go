package main

import (
	"bufio"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/tools/preview"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

const temporarySlots = `SELECT count(*)::text FROM pg_replication_slots
	WHERE temporary AND database = current_database()`

// value is the text that a statement returns.
func value(t *testing.T, db *testkit.Database, sql string, args ...any) (text string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.DSN)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(&text))
	return text
}

// TestPreview shows rows as records, with neither Kafka nor slot nor publication.
func TestPreview(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	env := variables(t, db, "CDC_OUTBOX_KAFKA_BROKERS=127.0.0.1:1")
	r := invoke(t, env, "preview")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stderr, "does not exist")
	require.Equal(t, 0, invoke(t, env, "setup", "--table").code)
	r = invoke(t, env, "preview")
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stderr, "cdc-outbox run --sink stdout")

	db.Exec(t, insertOrders)
	r = invoke(t, env, "preview")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "topic       orders.events")
	require.Equal(t, 1, strings.Count(r.stdout, "topic "))
	r = invoke(t, env, "preview", "--last", "7", "--json")
	require.Equal(t, 0, r.code, r.all())
	require.Equal(t, 7, strings.Count(r.stdout, "\n"))

	db.Exec(t, "ALTER TABLE outbox DROP CONSTRAINT outbox_headers_check")
	id := value(t, db, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, headers)
		VALUES ('orders', '1', 'created', '{"id": "mine"}') RETURNING id::text`)
	r = invoke(t, env, "preview", id)
	require.Equal(t, 3, r.code, r.all())
	require.Contains(t, r.stdout, "(reserved_header)")
	require.Contains(t, r.stdout, "policy      halt")
	require.Equal(t, 3, invoke(t, env, "preview", "00000000-0000-0000-0000-000000000000").code)
}

// TestRunToStdout: events are printed as they are committed while the connector publishes them, and neither its slot
// nor anything else on the server shows it afterwards.
func TestRunToStdout(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "orders.events")
	require.Equal(t, 0, invoke(t, b.env, "setup", "--table").code)
	connector := start(t, b.env)
	connector.awaitReady(200)

	p := command(t.Context(), b.env, "run", "--sink", "stdout")
	stderr, err := p.StderrPipe()
	require.NoError(t, err)
	stdout, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	said := bufio.NewScanner(stderr)
	begun := false
	for !begun && said.Scan() {
		begun = strings.Contains(said.Text(), "does not move")
	}
	require.True(t, begun)
	require.Equal(t, "1", value(t, b.db, temporarySlots))
	b.db.Exec(t, insertOrders)
	lines := bufio.NewScanner(stdout)
	for _, rec := range b.records("orders.events", 20) {
		require.True(t, lines.Scan())
		var shown preview.Record
		require.NoError(t, json.Unmarshal(lines.Bytes(), &shown))
		require.Equal(t, string(rec.Key), *shown.Key)
		require.Equal(t, string(rec.Value), *shown.Value)
		require.Equal(t, rec.Timestamp.UnixMilli(), shown.Timestamp.UnixMilli())
		require.Len(t, shown.Headers, len(rec.Headers))
		for i, h := range rec.Headers {
			require.Equal(t, h.Key, shown.Headers[i].Name)
			require.Equal(t, string(h.Value), *shown.Headers[i].Value, h.Key)
		}
	}
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.False(t, lines.Scan())
	require.NoError(t, p.Wait())
	require.Eventually(t, func() bool { return value(t, b.db, temporarySlots) == "0" }, 30*time.Second,
		20*time.Millisecond)
	require.Equal(t, 0, connector.stop(syscall.SIGTERM))
	require.Equal(t, 2, invoke(t, b.env, "run", "--sink", "file").code)
	require.Equal(t, 2, invoke(t, append(b.env, "CDC_OUTBOX_SOURCE=polling"), "run", "--sink", "stdout").code)
}
