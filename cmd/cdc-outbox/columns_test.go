package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// Whatever setting asks for a column: check finds a table that lacks it, and a publication that hides it, with the
// remedy.
func TestCheckKnowsEveryColumn(t *testing.T) {
	t.Parallel()
	db := testkit.Postgres(t)
	if db.Major() < 15 {
		t.Skip("column lists came with 15")
	}
	env := variables(t, db)
	require.Equal(t, 0, invoke(t, env, "setup", "--table").code)
	for setting, value := range map[string]string{
		"router.key_columns":               "tenant,aggregate_id",
		"router.column_headers":            "tenant",
		"router.topic":                     "${column:tenant}.events",
		"router.registry.schema_id_column": "tenant",
		"router.envelope.version_column":   "tenant",
		"router.envelope.trace_id_column":  "tenant",
		"router.cloudevents.extensions":    "tenant",
	} {
		name := "CDC_OUTBOX_" + strings.ToUpper(strings.ReplaceAll(setting, ".", "_")) + "=" + value
		with := append(env[:len(env):len(env)], name)
		optional := strings.HasPrefix(setting, "router.envelope.")
		switch {
		case optional:
			with = append(with, "CDC_OUTBOX_ROUTER_FORMAT=envelope")
		case strings.HasPrefix(setting, "router.cloudevents."):
			with = append(with, "CDC_OUTBOX_ROUTER_FORMAT=cloudevents_binary",
				"CDC_OUTBOX_ROUTER_CLOUDEVENTS_SOURCE=/shop")
		}
		f := found(t, invoke(t, with, "check", "--json").stdout, "table public.outbox")
		if optional {
			require.Equal(t, preflight.OK, f.Level, "%s has a default: %+v", setting, f)
		} else {
			require.Equal(t, preflight.Fail, f.Level, setting)
			require.Contains(t, f.Found, `no column "tenant"`)
			require.Contains(t, f.Why, setting)

			r := invoke(t, with, "setup", "--table")
			require.Equal(t, 2, r.code, r.all())
			require.Contains(t, r.stderr, `the column "tenant" has, which `+setting)
		}
		db.Exec(t, `ALTER TABLE outbox ADD COLUMN tenant text;
			ALTER PUBLICATION `+db.Publication+` SET TABLE outbox (id, aggregate_type, aggregate_id, event_type,
				payload, headers, created_at)`)
		var hidden preflight.Finding
		for _, f := range failures(t, invoke(t, with, "check", "--json").stdout) {
			if strings.Contains(f.Found, "column list") {
				hidden = f
			}
		}
		require.Contains(t, hidden.Found, `leaves out "tenant"`, setting)
		require.Contains(t, hidden.Why, setting)
		db.Exec(t, hidden.Commands[0])
		require.NotContains(t, invoke(t, with, "check").stdout, "leaves out")
		db.Exec(t, `ALTER TABLE outbox DROP COLUMN tenant`)
	}
}

// From PostgreSQL 18 on a stored generated column may be sent, and is then a column like others.
func TestStoredGeneratedColumn(t *testing.T) {
	t.Parallel()
	b := newBed(t, testkit.Postgres(t, testkit.Versions(t, "18")[0]), "orders.events")
	b.db.Exec(t, `CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), doc jsonb,
		aggregate_type text GENERATED ALWAYS AS (doc ->> 'kind') STORED, aggregate_id text, event_type text,
		payload jsonb, headers jsonb, created_at timestamptz DEFAULT now())`)
	b.db.Exec(t, "CREATE PUBLICATION "+b.db.Publication+
		" FOR TABLE outbox WITH (publish = 'insert', publish_generated_columns = stored)")
	res := invoke(t, b.env, "setup", "--new-slot")
	require.Equal(t, 0, res.code, res.all())
	r := start(t, b.env)
	r.awaitReady(http.StatusOK)
	b.db.Exec(t, `INSERT INTO outbox (doc, aggregate_id, payload) VALUES ('{"kind": "orders"}', 'o-1', '{}')`)
	require.Equal(t, "o-1", string(b.records("orders.events", 1)[0].Key))
	require.Equal(t, 0, r.stop(syscall.SIGTERM))
}
