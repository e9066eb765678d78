package polling

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/outbox"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

func theSetup() Setup {
	return Setup{Tables: []identifier.Table{theTable}, Columns: columns()}
}

func TestSetupAndTeardown(t *testing.T) {
	db := testkit.Postgres(t)
	s := theSetup()
	require.Equal(t, fault.Operator, fault.KindOf(Verify(t.Context(), db.DSN, s)))
	_, err := PlanSetup(t.Context(), db.DSN, s)
	require.ErrorContains(t, err, "does not exist")
	ddl, err := outbox.Schema(outbox.Options{Schema: "public"})
	require.NoError(t, err)
	s.TableDDL, s.Notify, s.Role = ddl, true, testkit.Name(t)
	steps, err := PlanSetup(t.Context(), db.DSN, s)
	require.NoError(t, err)
	sql := stepsSQL(steps)
	for _, want := range []string{
		"CREATE TABLE", "GENERATED ALWAYS AS IDENTITY", "published_at", "CREATE INDEX",
		"sha256", "CREATE TRIGGER", "GRANT UPDATE (\"published_at\")", "CREATE ROLE",
	} {
		require.Contains(t, sql, want)
	}
	require.NotContains(t, sql, "REPLICATION", "it needs no slot")
	done, err := Apply(t.Context(), db.DSN, s)
	require.NoError(t, err)
	require.Equal(t, len(steps), len(done))
	for _, f := range Check(t.Context(), db.DSN, s) {
		require.Equal(t, preflight.OK, f.Level, "%+v", f)
	}
	s.Role = ""
	done, err = Apply(t.Context(), db.DSN, s)
	require.NoError(t, err)
	require.Empty(t, done, "all is there")
	_, err = Remove(t.Context(), db.DSN, s, false)
	require.NoError(t, err)
	s.TableDDL = ""
	require.ErrorContains(t, Verify(t.Context(), db.DSN, s), "has no column")
	_, err = Apply(t.Context(), db.DSN, s)
	require.NoError(t, err)
	_, err = Remove(t.Context(), db.DSN, s, true)
	require.NoError(t, err)
}

// A table that has rows already: they are published only if that is asked for.
func TestSetupOfTableWithRows(t *testing.T) {
	for name, publish := range map[string]bool{"published": false, "to be published": true} {
		t.Run(name, func(t *testing.T) {
			db := testkit.Postgres(t)
			ddl, err := outbox.Schema(outbox.Options{Schema: "public"})
			require.NoError(t, err)
			db.Exec(t, ddl)
			b := &bed{T: t, db: db, conn: connect(t, db)}
			b.fill(10, 5)
			s := theSetup()
			s.PublishExisting = publish
			_, err = Apply(t.Context(), db.DSN, s)
			require.NoError(t, err)
			require.Equal(t, map[bool]int{true: 10, false: 0}[publish], b.unpublished())
			b.fill(5, 5)
			require.Equal(t, map[bool]int{true: 15, false: 5}[publish], b.unpublished(), "the default was dropped")
		})
	}
}

// The role that setup makes can relay, and nothing more.
func TestSetupRoleIsEnough(t *testing.T) {
	b := newBed(t)
	s := theSetup()
	s.Role = testkit.Name(t)
	_, err := Apply(t.Context(), b.db.DSN, s)
	require.NoError(t, err)
	b.dropRole(s.Role)
	dsn := strings.Replace(b.db.DSN, "postgres@", s.Role+"@", 1)
	require.NotEqual(t, dsn, b.db.DSN)
	require.NoError(t, Verify(t.Context(), dsn, s))
	b.fill(100, 10)
	x := b.start(func(c *Config) { c.DSN = func() (string, error) { return dsn, nil } })
	x.awaitPublished()
	require.NoError(t, x.finish())
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.Exec(t.Context(), "UPDATE outbox SET payload = NULL")
	require.ErrorContains(t, err, "permission denied")
	_, err = conn.Exec(t.Context(), "DELETE FROM outbox")
	require.ErrorContains(t, err, "permission denied")
}

// dropRole does so at the end.
func (b *bed) dropRole(role string) {
	b.Cleanup(func() {
		require.NoError(b, b.db.Server.Exec(context.Background(), b.db.Name,
			"DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role))
	})
}

func TestCheckFinds(t *testing.T) {
	for name, tc := range map[string]struct{ spoil, want string }{
		"no index": {"DROP INDEX outbox_unpublished_idx", "No index serves"},
		"another index": {"DROP INDEX outbox_unpublished_idx; CREATE INDEX ON outbox (seq) WHERE " +
			"published_at IS NULL", "No index serves"},
		"no sequence":        {"ALTER TABLE outbox DROP COLUMN seq", `no column "seq"`},
		"numbers in advance": {"ALTER TABLE outbox ALTER COLUMN seq SET CACHE 20", "by 20 at a time"},
		"no mark":            {"ALTER TABLE outbox DROP COLUMN published_at CASCADE", `no column "published_at"`},
		"a mark of other type": {"ALTER TABLE outbox DROP COLUMN published_at CASCADE; ALTER TABLE outbox ADD " +
			"published_at boolean", "is boolean"},
		"row security": {"ALTER TABLE outbox ENABLE ROW LEVEL SECURITY; ALTER TABLE outbox FORCE ROW LEVEL " +
			"SECURITY; ALTER TABLE outbox OWNER TO %[1]s", "Row security"},
		"no right to mark": {"GRANT SELECT ON outbox TO %[1]s", "may not read it or not mark"},
		"unlogged":         {"ALTER TABLE outbox SET UNLOGGED", "unlogged"},
		"no trigger":       {"DROP TRIGGER cdc_outbox_notify ON outbox", "no trigger"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			dsn := b.db.DSN
			if strings.Contains(tc.spoil, "%[1]s") {
				role := testkit.Name(t)
				b.db.Exec(t, "CREATE ROLE "+role+" LOGIN; GRANT ALL ON SCHEMA public TO "+role)
				b.dropRole(role)
				dsn = strings.Replace(dsn, "postgres@", role+"@", 1)
				tc.spoil = fmt.Sprintf(tc.spoil, role)
			}
			b.db.Exec(t, tc.spoil)
			s := theSetup()
			s.Notify = true
			var found []string
			for _, f := range Check(t.Context(), dsn, s) {
				if f.Level != preflight.OK {
					found = append(found, f.Found)
					require.NotEmpty(t, f.Remedy)
				}
			}
			require.Len(t, found, 1)
			require.Contains(t, found[0], tc.want)
		})
	}
}

// What setup makes fixes what check finds.
func TestSetupFixesInvalidIndex(t *testing.T) {
	b := newBed(t)
	b.db.Exec(t, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'outbox_unpublished_idx'::regclass")
	require.ErrorContains(t, Verify(t.Context(), b.db.DSN, theSetup()), "No index serves")
	_, err := Apply(t.Context(), b.db.DSN, theSetup())
	require.NoError(t, err)
	require.NoError(t, Verify(t.Context(), b.db.DSN, theSetup()))
}

// The lane that Postgres computes is that of any other version, and of ours, for every text.
func TestVersionsLane(t *testing.T) {
	b := newBed(t)
	for _, key := range []string{
		"", "1", "order-4711", `back\slash`, `\x41\\`, "Zoë ✓ 語", "'; --",
		strings.Repeat("long", 5000),
	} {
		var lane int
		require.NoError(t, b.conn.QueryRow(t.Context(), `SELECT `+laneSQL("k")+` FROM (SELECT $1::text AS k) t`,
			key).Scan(&lane))
		require.Equal(t, laneOf([]byte(key)), lane, key)
	}
	for key, want := range laneVectors {
		var lane, plain int
		require.NoError(t, b.conn.QueryRow(t.Context(), `SELECT `+laneSQL("k")+`,
			get_byte(sha256(convert_to(k, 'UTF8')), 0) & 63 FROM (SELECT $1::text AS k) t`, key).Scan(&lane, &plain))
		require.Equal(t, [2]int{want, want}, [2]int{lane, plain}, key)
	}
}

// With a million rows published and a few not, each query reads a few pages, whatever the statistics say.
func TestVersionsPlansUseIndex(t *testing.T) {
	b := newBed(t)
	b.fill(100_000, 1000)
	q := newStatements(&Config{Columns: columns(), After: Mark}, theTable)
	explain := func(what, sql string) string {
		results, err := b.conn.PgConn().Exec(t.Context(),
			q.begin+"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) "+sql+"; ROLLBACK").ReadAll()
		require.NoError(t, err, what)
		var plan strings.Builder
		for _, r := range results {
			for _, row := range r.Rows {
				plan.WriteString(string(row[0]) + "\n")
			}
		}
		require.NotContains(t, plan.String(), "Seq Scan on outbox", what)
		require.NotContains(t, plan.String(), "Sort", what)
		require.Regexp(t, "outbox_unpublished_idx|Tid Scan", plan.String(), what)
		return plan.String()
	}
	all := make([]int, Lanes)
	for i := range all {
		all[i] = i
	}
	rows := []batchRow{
		{lane: laneOf([]byte("7")), seq: 8, part: []byte("1"), tid: []byte("(0,1)")},
		{lane: laneOf([]byte("8")), seq: 9, part: []byte("1"), tid: []byte("(0,2)")},
	}
	look := func(when string) {
		explain("look, "+when, q.look(all, 16))
		explain("read, "+when, q.read([]int{1, 2, 3}, 100))
		require.Contains(t, explain("mark, "+when, q.mark(rows, []int{0, 1})), "Tid Scan on outbox", "mark, "+when)
	}
	look("all unpublished, no statistics")
	b.db.Exec(t, "UPDATE outbox SET published_at = now() WHERE seq <= 99900")
	look("hardly any unpublished, no statistics")
	b.db.Exec(t, "DELETE FROM outbox WHERE seq % 100 = 1")
	for _, when := range []string{"analyzed"} {
		require.NoError(t, b.db.Server.Exec(t.Context(), b.db.Name, "ANALYZE outbox"))
		look(when)
	}
	_, err := b.conn.Exec(t.Context(), "VACUUM outbox")
	require.NoError(t, err)
	plan := explain("look, vacuumed", q.look(all, Lanes))
	pages := 0
	for line := range strings.Lines(plan) {
		if _, rest, ok := strings.Cut(line, "Buffers: shared hit="); ok && pages == 0 {
			_, err := fmt.Sscanf(rest, "%d", &pages)
			require.NoError(t, err)
		}
	}
	require.Positive(t, pages)
	require.Less(t, pages, 6*Lanes, "a few pages for each lane:\n%s", plan)
	look("vacuumed")
	t.Logf("a query of all lanes reads %d pages", pages)
}

// Setup is for the table's owner; the relay's role, which setup is to make, cannot be altered before it is there.
func TestSetupByMissingRole(t *testing.T) {
	db := testkit.Postgres(t)
	_, err := Apply(t.Context(), strings.Replace(db.DSN, "postgres@", "nobody_of_that_name@", 1), theSetup())
	_, remedy := fault.Split(err)
	next := remedy.String()
	require.Contains(t, next, `CREATE ROLE "nobody_of_that_name" LOGIN;`)
	require.NotContains(t, next, "ALTER ROLE")
}

// Bug (polling): The age of the oldest unpublished row kept rising between two samples after the row had been
// published. Cost: a sawtooth up to `monitor.interval` on a healthy relay.
func TestBacklogAgeDoesNotGoOn(t *testing.T) {
	age := 0.02
	require.InDelta(t, 0.02, (&relay.Backlog{Rows: 1, Oldest: &age, At: time.Now().Add(-5 * time.Second)}).Seconds(),
		1e-9)
	require.Zero(t, (&relay.Backlog{}).Seconds())
}

func stepsSQL(steps []setup.Step) string {
	lines := make([]string, 0, len(steps))
	for _, s := range steps {
		lines = append(lines, s.SQL)
	}
	return strings.Join(lines, "\n")
}
