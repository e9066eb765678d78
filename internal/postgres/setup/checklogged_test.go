package setup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
)

// Versions differ in what they say of partitions; none says that a partition's rows never reach the WAL.
//
// Bug (setup): Partitions were not looked at, only the root of the table. Cost: all rows of an unlogged partition or a
// foreign table were lost.
func TestVersionsPartitionsOutsideTheWALAreRefused(t *testing.T) {
	db := newAdminDB(t, `CREATE TABLE outbox (id uuid NOT NULL, aggregate_type text NOT NULL,
		aggregate_id text NOT NULL, event_type text NOT NULL, payload jsonb, headers jsonb,
		created_at timestamptz NOT NULL)
		PARTITION BY RANGE (created_at);
		CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
		CREATE TABLE outbox_2 PARTITION OF outbox FOR VALUES FROM ('2021-01-01') TO ('2023-01-01')
			PARTITION BY RANGE (created_at)`)
	require.NoError(t, db.ensure(t, true))
	require.NoError(t, CheckPublished(t.Context(), db.DSN, db.cfg))

	db.Exec(t, `
		CREATE UNLOGGED TABLE outbox_2a PARTITION OF outbox_2
			FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');
		CREATE FOREIGN DATA WRAPPER none; CREATE SERVER elsewhere FOREIGN DATA WRAPPER none;
		CREATE FOREIGN TABLE outbox_2b PARTITION OF outbox_2 FOR VALUES FROM ('2022-01-01') TO ('2023-01-01')
			SERVER elsewhere`)
	for _, err := range []error{db.ensure(t, false), CheckPublished(t.Context(), db.DSN, db.cfg)} {
		requireOperator(t, err, `Its partition public.outbox_2a is unlogged`,
			`ALTER TABLE "public"."outbox_2a" SET LOGGED;`)
	}
	failed := map[string]preflight.Finding{}
	for _, f := range Preflight(t.Context(), db.DSN, db.cfg) {
		if f.Level == preflight.Fail {
			failed[f.Found] = f
		}
	}
	require.Len(t, failed, 2)
	require.Equal(t, []string{`ALTER TABLE "public"."outbox_2" DETACH PARTITION "public"."outbox_2b";`},
		failed["Its partition public.outbox_2b is a foreign table."].Commands)

	db.Exec(t, `ALTER TABLE outbox_2a SET LOGGED; ALTER TABLE outbox_2 DETACH PARTITION outbox_2b`)
	require.NoError(t, CheckPublished(t.Context(), db.DSN, db.cfg))
}
