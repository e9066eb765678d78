package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/preview"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestOutboxes: from the statements of an ORM over `config init` to the record that preview prints. Each file of
// testdata/outboxes creates a table and inserts a row; the comments at its head say what the record has. With "--key"
// the columns do not tell the key: the file leaves it open, and init takes it by the flag.
//
// Bug (configuration): `config init` did not know a reference such as record_type and record_id, and gave topics that
// Kafka does not take to names of classes such as Billing::Invoice. Cost: a key to be named by hand, and a relay that
// halts at its first row.
func TestOutboxes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/outboxes/*.sql")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 28)
	db := testkit.Postgres(t)
	undecided := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		schema := strings.TrimSuffix(filepath.Base(file), ".sql")
		db.Exec(t, "SET timezone = 'UTC'; CREATE SCHEMA "+schema+"; SET search_path = "+schema+"; "+string(text))
		want := map[string]string{}
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(strings.TrimPrefix(line, "-- "), ":"); ok && line[0] == '-' {
				want[name] = strings.TrimSpace(value)
			}
		}
		if want["--key"] != "" {
			undecided++
		}
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
			become(t, db, schema, want)
		})
	}
	require.LessOrEqual(t, undecided*7, len(files), "24 of 28 need no edit")
}

// become requires that the only row of the schema's only table becomes the record.
func become(t *testing.T, db *testkit.Database, schema string, want map[string]string) {
	env := variables(t, db)
	table := value(t, db, `SELECT format('%I.%I', relnamespace::regnamespace::name, relname) FROM pg_class
		WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p') AND NOT relispartition`, schema)
	file := filepath.Join(t.TempDir(), "cdc-outbox.yaml")
	init := []string{"config", "init", "--table", table, "--force", "--output", file}
	r := invoke(t, env, init...)
	require.Equal(t, 0, r.code, r.all())
	open := strings.Contains(r.stdout, "decide what the file lists under "+config.Undecided)
	require.Equal(t, want["--key"] != "", open, r.all())
	if open {
		r = invoke(t, env, "preview", "--config", file)
		require.Equal(t, 2, r.code, r.all())
		r = invoke(t, env, append(init, "--key", want["--key"])...)
		require.Equal(t, 0, r.code, r.all())
	}
	r = invoke(t, env, "preview", "--json", "--config", file)
	require.Equal(t, 0, r.code, r.all())
	var rec preview.Record
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &rec), r.all())
	require.NotNil(t, rec.Key)
	got := map[string]string{"topic": rec.Topic, "key": *rec.Key, "type": "", "id": "", "timestamp": ""}
	var headers []string
	for _, h := range rec.Headers {
		if _, ok := got[h.Name]; ok {
			got[h.Name] = *h.Value
		} else {
			headers = append(headers, h.Name+"="+*h.Value)
		}
	}
	if want["timestamp"] != "" { // without one: the time of the commit, which preview does not know
		got["timestamp"] = rec.Timestamp.Format("2006-01-02T15:04:05.999Z07:00")
	}
	for _, optional := range []string{"--key", "headers"} {
		got[optional] = want[optional]
	}
	if len(headers) > 0 {
		got["headers"] = strings.Join(headers, " ")
	}
	for name := range got {
		require.Equal(t, want[name], got[name], name)
	}
	require.True(t, json.Valid([]byte(*rec.Value)), "the payload, also of bytes")
}
