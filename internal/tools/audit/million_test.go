package audit

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// A million events, of which a thousand are missing from the ledger: CDC_OUTBOX_TEST_MILLION=1 prints how long that
// takes, and the memory it takes.
func TestAuditOfAMillion(t *testing.T) {
	if os.Getenv("CDC_OUTBOX_TEST_MILLION") == "" {
		t.Skip("takes half a minute")
	}
	db := testkit.Postgres(t)
	db.Exec(t, `CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text,
			aggregate_id text, event_type text, payload jsonb, created_at timestamptz, published_at timestamptz);
		CREATE INDEX ON outbox (created_at, id);
		INSERT INTO outbox SELECT gen_random_uuid(), 'order', g, 'x', '{}', now() - interval '2 hours', now()
			FROM generate_series(1, 1000000) g;
		CREATE TABLE processed_events (consumer text COLLATE "C", event_id text COLLATE "C", status text, source text,
			claimed_at timestamptz, completed_at timestamptz, PRIMARY KEY (consumer, event_id));
		INSERT INTO processed_events SELECT 'billing', id::text, 'COMPLETED', NULL, now() - interval '1 hour',
			now() - interval '1 hour' FROM outbox WHERE aggregate_id::int > 1000`)
	ledgers, err := ParseLedgers([]string{"billing"}, "processed_events", nil)
	require.NoError(t, err)
	o := Options{
		DSN: db.DSN, Since: 24 * time.Hour, Grace: time.Minute, Examples: 10, Ledgers: ledgers,
		Published: "published_at", Progress: silent{},
		Admin: setup.Config{Objects: postgres.Objects{
			Slot: db.Slot, Publication: db.Publication, Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
			Columns: postgres.Columns{
				ID: "id", AggregateType: "aggregate_type", AggregateID: "aggregate_id", Timestamp: "created_at",
			},
		}},
	}
	judge := func() {
		began := time.Now()
		r, err := Run(t.Context(), o)
		require.NoError(t, err)
		require.EqualValues(t, 1_000_000, r.Consumers[0].Events)
		require.EqualValues(t, 1000, r.Consumers[0].Findings[Unhandled].Count)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		status, _ := os.ReadFile("/proc/self/status")
		t.Logf("%s, heap from the system %d MiB\n%s", time.Since(began), m.HeapSys>>20, status)
	}
	judge()
	b := &archiveBed{T: t, db: db, o: o}
	o.Archives = []string{t.TempDir()}
	b.prune(1, o.Archives[0])
	judge()
}
