package main

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// Tables that another library makes, without an aggregate type and without an event type: a topic per table, from
// setup to dead letter.
func TestTablesWithoutTypes(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t), "public.txno_outbox", "shop.outbox", "cdc-outbox.dead-letter")
	const columns = ` (id text PRIMARY KEY, topic_key text, body bytea, created timestamptz DEFAULT now())`
	b.db.Exec(t, "CREATE SCHEMA shop; CREATE TABLE txno_outbox"+columns+"; CREATE TABLE shop.outbox"+columns)
	path := filepath.Join(t.TempDir(), "cdc-outbox.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`postgres: {tables: [public.txno_outbox, shop.outbox]}
router:
  topic: ${schema}.${table}
  columns: {aggregate_type: "", type: "", aggregate_id: topic_key, payload: body, headers: "", timestamp: created}
  on_bad_row: dead_letter
`), 0o600))
	env := append(b.env, "CDC_OUTBOX_CONFIG="+path)
	res := invoke(t, env, "setup")
	require.Equal(t, 0, res.code, res.all())
	r := start(t, env)
	r.awaitReady(http.StatusOK)
	b.db.Exec(t, `INSERT INTO txno_outbox VALUES ('a', 'k1', 'one'); INSERT INTO shop.outbox VALUES ('b', 'k2', 'two');
		INSERT INTO shop.outbox VALUES ('c', NULL, 'bad')`)
	require.Equal(t, "one", string(b.records("public.txno_outbox", 1)[0].Value))
	second := b.records("shop.outbox", 1)[0]
	require.Equal(t, "two", string(second.Value))
	for _, h := range second.Headers {
		require.NotEqual(t, "type", h.Key)
	}
	b.records("cdc-outbox.dead-letter", 1)
	res = invoke(t, env, "check")
	require.Equal(t, 0, res.code, res.all())
	require.Contains(t, res.all(), "shop.outbox")
	res = invoke(t, env, "preview", "--limit", "5")
	require.NotContains(t, res.all(), "panic")
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
	bad := invoke(t, append(env, "CDC_OUTBOX_ROUTER_TOPIC=${type}"), "check")
	require.Equal(t, 2, bad.code, bad.all())
}
