package inventory

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
)

func table(name string, columns ...string) Table {
	return Table{identifier.Table{Schema: "public", Name: name}, columns}
}

// loaded is the configuration that a file gives; every file is one without a mistake.
func loaded(t *testing.T, text string) *config.Loaded {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cdc-outbox.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	c, err := config.Load(config.Options{Environ: []string{"CDC_OUTBOX_CONFIG=" + path}})
	require.NoError(t, err, text)
	return c
}

func TestFile(t *testing.T) {
	s := &Survey{
		Database: "shop\n# x", WALLevel: "replica", Slots: []Slot{{Name: "other", Plugin: "pgoutput", Active: true}},
		Publications: []Publication{{Name: "everything", AllTables: true}},
	}
	text, err := s.File("")
	require.NoError(t, err)
	require.Equal(t, []string{"public.outbox"}, loaded(t, text).Postgres.Tables)
	for _, want := range []string{
		"No table looks like an outbox", "wal_level is replica", "has no REPLICATION",
		"exists: other (pgoutput), a process", "exists: everything, for all tables",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "\n# x", "a name cannot begin a line")

	s = &Survey{WALLevel: "logical", Replication: true, Tables: []Table{
		table("orders", "id", "name", "data", "created_at"),
		table("Event Log", "event_id", "topic", "key", "event_type", "Body"),
		table("outbox_archive", "id", "aggregate_type", "payload"),
		table("cdc_outbox_slots", "id", "payload"),
	}}
	text, err = s.File("")
	require.NoError(t, err)
	c := loaded(t, text)
	require.Equal(t, []string{"public.outbox_archive"}, c.Postgres.Tables, "the name counts most")
	require.Contains(t, text, `# public."Event Log" looks like an outbox, too`)
	require.NotContains(t, text, "orders")
	require.Contains(t, text, "# aggregate_id: no column was recognized\n")

	text, err = s.File(`public."Event Log"`)
	require.NoError(t, err)
	c = loaded(t, text)
	require.Equal(t, []string{`public."Event Log"`}, c.Postgres.Tables)
	require.Equal(t, "event_id", c.Router.Columns.ID)
	require.Equal(t, "topic", c.Router.Columns.AggregateType)
	require.Equal(t, "Body", c.Router.Columns.Payload)
	_, err = s.File("public.missing")
	require.ErrorContains(t, err, "has no table public.missing")

	s.Tables = []Table{table("outbox", "id", "aggregatetype", "aggregateid", "type", "payload")}
	text, err = s.File("")
	require.NoError(t, err)
	require.Equal(t, "aggregatetype", loaded(t, text).Router.Columns.AggregateType)
	require.Contains(t, text, "columns of Debezium's outbox event router")
	require.Contains(t, text, "# headers: no column was recognized; it may be absent")
}
