package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestConfigInit: the file names the table and the columns that the database has, setup and check accept it, and no
// file is overwritten without being asked.
func TestConfigInit(t *testing.T) {
	db := testkit.Postgres(t)
	db.Exec(t, `CREATE TABLE integration_events (event_id uuid PRIMARY KEY, aggregate_type text NOT NULL,
		aggregate_id text NOT NULL, event_type text NOT NULL, data jsonb, created_at timestamptz DEFAULT now())`)
	db.Exec(t, "CREATE TABLE customers (id int, name text)")
	file := filepath.Join(t.TempDir(), "cdc-outbox.yaml")
	env := []string{"CDC_OUTBOX_POSTGRES_DSN=" + db.DSN}
	r := invoke(t, env, "config", "init", "--output", file)
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "Wrote "+file)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, want := range []string{
		`tables: ["public.integration_events"]`, `id: "event_id"`, `payload: "data"`, `headers: ""   # no column`,
	} {
		require.Contains(t, string(text), want)
	}
	require.NotContains(t, string(text), "customers")
	require.NotContains(t, string(text), "wal_level is")
	require.Equal(t, 0, invoke(t, env, "config", "validate", file).code)
	r = invoke(t, env, "setup", "--dry-run", "--config", file)
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "integration_events")

	require.NoError(t, os.WriteFile(file, []byte("mine"), 0o600))
	r = invoke(t, env, "config", "init", "--output", file)
	require.Equal(t, 2, r.code, r.all())
	require.Contains(t, r.stderr, file+" exists")
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "mine", string(kept))
	require.Equal(t, 0, invoke(t, env, "config", "init", "--output", file, "--force").code)
	r = invoke(t, env, "config", "init", "--table", "customers", "--output", "-")
	require.Equal(t, 0, r.code, r.all())
	require.Contains(t, r.stdout, "public.customers")
}
