package setup

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

// TestVersionsRemediesArePasted: the commands of each finding about table and publication are run as printed, in each
// form of the publication, and then nothing is left to be said.
//
// Bug (setup): Of a table that inherits from the outbox only its place in the publication was looked at: a row filter
// and a column list there, and a foreign table, were not seen, and the remedy for an unlogged one was ADD TABLE, which
// Postgres refuses. Cost: events missing from Kafka while `check` was content, or exit 3 with a remedy that does not
// work.
//
// Bug (setup): Of an unlogged table in a publication FOR ALL TABLES, and of a table that comes with its schema, the
// remedies were ADD TABLE and DROP TABLE, which Postgres refuses. Cost: exit 3 with a remedy that does not work.
func TestVersionsRemediesArePasted(t *testing.T) {
	t.Parallel()
	const partitioned = `CREATE TABLE outbox (id bigint PRIMARY KEY, aggregate_type text NOT NULL, aggregate_id text NOT
		NULL, event_type text NOT NULL, payload jsonb, headers jsonb, created_at timestamptz NOT NULL DEFAULT now())
		PARTITION BY RANGE (id); CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES FROM (0) TO (10);
		CREATE TABLE outbox_2 PARTITION OF outbox DEFAULT`
	const other = `; CREATE SCHEMA s; CREATE TABLE s.other (a int); CREATE TABLE another (a int)`
	for name, test := range map[string]struct {
		since   int // the version that has the form
		tables  string
		form    string
		fault   string
		found   string
		byHand  string // what the remedy leaves to the operator's words
		warning bool
	}{
		"all tables, unlogged": {
			0, setupTableDDL, "FOR ALL TABLES", `ALTER TABLE outbox SET UNLOGGED`, "unlogged", "",
			false,
		},
		"schema, unlogged": {
			15, setupTableDDL, "FOR TABLES IN SCHEMA public", `ALTER TABLE outbox SET UNLOGGED`,
			"unlogged", "", false,
		},
		"partition, unlogged": {
			0, partitioned, "FOR TABLE outbox WITH (publish_via_partition_root)",
			`ALTER TABLE outbox_1 SET UNLOGGED`, "unlogged", "", false,
		},
		"all tables, partition unlogged": {
			0, partitioned, "FOR ALL TABLES WITH (publish_via_partition_root)",
			`ALTER TABLE outbox_1 SET UNLOGGED`, "unlogged", "", false,
		},
		"all tables, by partitions": {0, partitioned, "FOR ALL TABLES", ``, "names of its partitions", "", false},
		"schema, by partitions": {
			15, partitioned, "FOR TABLES IN SCHEMA public", ``, "names of its partitions", "",
			false,
		},
		"another table":  {0, setupTableDDL + other, "FOR TABLE another", ``, "not in", "", false},
		"another schema": {15, setupTableDDL + other, "FOR TABLES IN SCHEMA s", ``, "not in", "", false},
		"no inserts": {
			0, setupTableDDL, "FOR TABLE outbox WITH (publish = 'update')", ``, "does not publish inserts",
			"", false,
		},
		"all tables, no inserts": {
			0, setupTableDDL, "FOR ALL TABLES WITH (publish = 'update')", ``,
			"does not publish inserts", "", false,
		},
		"row filter": {15, setupTableDDL, "FOR TABLE outbox WHERE (aggregate_type = 'x')", ``, "row filter", "", false},
		"row filter beside a schema": {15, setupTableDDL + other, "FOR TABLE outbox WHERE (aggregate_type = 'x'), " +
			"TABLES IN SCHEMA s", ``, "row filter", "", false},
		"child, unlogged": {
			0, setupTableDDL, "FOR TABLE outbox", `CREATE UNLOGGED TABLE child () INHERITS (outbox)`,
			"child public.child is unlogged", "", false,
		},
		"all tables, child unlogged": {
			0, setupTableDDL, "FOR ALL TABLES", `CREATE UNLOGGED TABLE child () INHERITS (outbox)`,
			"child public.child is unlogged", "", false,
		},
		"child, foreign": {
			0, setupTableDDL, "FOR ALL TABLES", `CREATE FOREIGN DATA WRAPPER none;
			CREATE SERVER elsewhere FOREIGN DATA WRAPPER none; CREATE FOREIGN TABLE child () INHERITS (outbox)
			SERVER elsewhere`, "child public.child is a foreign table", "", false,
		},
		"child, left out": {
			0, setupTableDDL, "FOR TABLE outbox", `CREATE TABLE child () INHERITS (outbox);
			ALTER PUBLICATION NAME_ ADD TABLE ONLY child; ALTER PUBLICATION NAME_ DROP TABLE ONLY outbox`,
			"It is not in publication", "", false,
		},
		"child, row filter": {
			15, setupTableDDL, "FOR TABLE outbox", `CREATE TABLE child () INHERITS (outbox);
			ALTER PUBLICATION NAME_ ADD TABLE ONLY child WHERE (aggregate_type = 'x')`,
			"row filter on table public.child", "", false,
		},
		"child, column list": {
			15, setupTableDDL, "FOR TABLE outbox", `CREATE TABLE child () INHERITS (outbox);
			ALTER PUBLICATION NAME_ ADD TABLE ONLY child (id, aggregate_id)`, "column list of table public.child", "",
			false,
		},
		"column list":   {15, setupTableDDL, "FOR TABLE outbox (id, aggregate_id)", ``, "leaves out", "", false},
		"foreign table": {0, setupTableDDL + other, "FOR TABLE outbox, another", ``, "not configured", "", true},
		"foreign schema": {
			15, setupTableDDL + other, "FOR TABLE outbox, another, TABLES IN SCHEMA s", ``,
			"not configured", `ALTER PUBLICATION NAME_ DROP TABLES IN SCHEMA s`, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := testkit.Postgres(t)
			if db.Major() < test.since {
				t.Skip("not in this version")
			}
			a := adminDBOn(t, db, test.tables)
			pub := identifier.Quote(db.Publication)
			db.Exec(t, "CREATE PUBLICATION "+pub+" "+test.form)
			if test.fault != "" {
				db.Exec(t, strings.ReplaceAll(test.fault, "NAME_", pub))
			}
			pasted := 0
			for range 3 { // a finding may appear after another
				for _, f := range a.faults(t, test.warning) {
					if strings.Contains(f.Found, test.found) {
						pasted++
					}
					for _, command := range f.Commands {
						if strings.HasSuffix(command, ";") {
							db.Exec(t, command)
						}
					}
				}
			}
			require.Positive(t, pasted, "the finding")
			if test.byHand != "" {
				db.Exec(t, strings.ReplaceAll(test.byHand, "NAME_", pub))
			}
			require.Empty(t, a.faults(t, test.warning))
		})
	}
}

// faults are the findings about tables and publication that fail, and on demand the warnings about the publication.
func (db *adminDB) faults(t *testing.T, warnings bool) []preflight.Finding {
	t.Helper()
	st, err := readState(t.Context(), db.conn, db.cfg.WithDefaults())
	require.NoError(t, err)
	var out []preflight.Finding
	for _, f := range append(checkTables(db.cfg, st), checkPublication(db.cfg, st)...) {
		if f.Level == preflight.Fail ||
			warnings && f.Level == preflight.Warn && f.Subject == db.cfg.PublicationSubject() {
			out = append(out, f)
		}
	}
	return out
}
