package outboxtable

import (
	"fmt"
	"testing"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/stretchr/testify/require"
)

// The types are those whose name, without a length, would cut the id when it is cast.
//
// Bug (rows): `repair` cast ids in the same way. Cost: rows with ids of type char(n) or bit(n) were found missing and
// not published.
func TestByIDFindsRowsOfAnyType(t *testing.T) {
	for idType, id := range map[string]string{"char(12)": "('event-' || g)", "bit(8)": "g::bit(8)"} {
		t.Run(idType, func(t *testing.T) {
			db := testkit.Postgres(t)
			db.Exec(t,
				fmt.Sprintf(
					`CREATE TABLE outbox (id %s PRIMARY KEY, aggregate_type text, aggregate_id text, event_type text,
						payload jsonb, created_at timestamptz DEFAULT now())`, idType,
				))
			db.Exec(t, fmt.Sprintf(`INSERT INTO outbox SELECT %s, 'a', 'k', 'created' FROM generate_series(1, 3) g`,
				id))
			cfg := setup.Config{Objects: postgres.Objects{
				Slot: db.Slot, Publication: db.Publication,
				Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
				Columns: postgres.Columns{
					ID: "id", AggregateType: "aggregate_type", AggregateID: "aggregate_id", Timestamp: "created_at",
				},
			}}
			rows, err := Open(t.Context(), db.DSN, cfg, cfg.Tables[0], Filter{})
			require.NoError(t, err)
			defer rows.Close()
			var ids, found []string
			_, err = rows.Page(t.Context(), nil, 10, func(_ *pgoutput.Relation, _ pgoutput.Tuple, key Key) error {
				ids = append(ids, key.ID)
				return nil
			})
			require.NoError(t, err)
			require.Len(t, ids, 3)
			err = rows.ByID(t.Context(), []string{ids[2], "no such id", ids[0]},
				func(_ *pgoutput.Relation, _ pgoutput.Tuple, key Key, chosen bool) error {
					require.True(t, chosen)
					found = append(found, key.ID)
					return nil
				})
			require.NoError(t, err)
			require.Equal(t, []string{ids[2], ids[0]}, found)
		})
	}
}
