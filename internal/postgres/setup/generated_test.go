package setup

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

const generatedDDL = `CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), doc jsonb,
	aggregate_type text GENERATED ALWAYS AS (doc ->> 'kind') STORED, aggregate_id text, event_type text, payload jsonb,
	headers jsonb, created_at timestamptz DEFAULT now())`

// A stored generated column is a column like others where the publication sends it, which it can from PostgreSQL 18 on.
// Everywhere else the refusal is true of that version.
//
// Bug (monitor): A stored generated column that a publication of PostgreSQL 18 sends was refused, with a reason that is
// not true there. Cost: a table that works, refused by `check`, `setup` and `run`. Also: `TestStoredGeneratedColumn` in
// `cmd/cdc-outbox`.
func TestGeneratedColumns(t *testing.T) {
	for _, version := range testkit.Versions(t, "15", "18") {
		t.Run(version, func(t *testing.T) {
			db := adminDBOn(t, testkit.Postgres(t, version), generatedDDL)
			err := db.ensure(t, true)
			require.ErrorContains(t, err, `"aggregate_type"`)
			require.ErrorContains(t, err, map[string]string{
				"15": "Before version 18", "18": "only if the publication includes it",
			}[version])
			if version == "18" {
				testSentGeneratedColumns(t)
			}
		})
	}
}

func testSentGeneratedColumns(t *testing.T) {
	t.Run("sent", func(t *testing.T) {
		db := adminDBOn(t, testkit.Postgres(t, "18"), generatedDDL)
		ddl := strings.TrimSuffix(db.cfg.PublicationDDL(false), ");") + ", publish_generated_columns = stored);"
		db.Exec(t, ddl)
		db.cfg.NewSlot = true
		require.NoError(t, db.ensure(t, true))
		require.NoError(t, preflight.FirstFailure(Preflight(t.Context(), db.DSN, db.cfg)))
		db.Exec(t, "ALTER PUBLICATION "+identifier.Quote(db.Publication)+" SET (publish_generated_columns = none)")
		requireOperator(t, preflight.FirstFailure(Preflight(t.Context(), db.DSN, db.cfg)),
			"does not include generated columns", "publish_generated_columns = stored")
	})
	t.Run("virtual", func(t *testing.T) {
		db := adminDBOn(t, testkit.Postgres(t, "18"), strings.Replace(generatedDDL, "STORED", "VIRTUAL", 1))
		require.ErrorContains(t, db.ensure(t, true), "the value is not in the log")
	})
}
