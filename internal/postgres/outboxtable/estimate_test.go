package outboxtable

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestEstimate: the planner's number for the rows that are chosen, also where the table has no timestamps.
func TestEstimate(t *testing.T) {
	db := testkit.Postgres(t)
	db.Exec(t, `CREATE TABLE outbox
			(id int PRIMARY KEY, aggregate_type text, aggregate_id text, created_at timestamptz);
		INSERT INTO outbox SELECT g, 'order', (g % 10)::text, now() FROM generate_series(1, 5000) g; ANALYZE outbox`)
	for _, timestamp := range []string{"created_at", ""} {
		cfg := setup.Config{Objects: postgres.Objects{
			Tables: []identifier.Table{{Schema: "public", Name: "outbox"}}, Slot: db.Slot,
			Publication: db.Publication, Columns: postgres.Columns{
				ID: "id", AggregateType: "aggregate_type", AggregateID: "aggregate_id", Timestamp: timestamp,
			},
		}}
		for key, want := range map[string]int64{"": 5000, "3": 500} {
			var filter Filter
			if key != "" {
				filter.AggregateIDs = []string{key}
			}
			rows, err := Open(t.Context(), db.DSN, cfg, cfg.Tables[0], filter)
			require.NoError(t, err)
			n, err := rows.Estimate(t.Context())
			rows.Close()
			require.NoError(t, err)
			require.InDelta(t, want, n, float64(want)/10, "%s %s", timestamp, key)
		}
	}
}
