//go:build e2e

package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/postgres"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
)

// TestOneSlotToTwo follows docs/scaling.md, with the very SQL of the page, while writers go on. One transaction is open
// when the publications are created, another one when the slot is copied. Every event arrives once.
func TestOneSlotToTwo(t *testing.T) {
	for _, version := range []string{"15", "18"} {
		for name, exactlyOnce := range map[string]bool{"at least once": false, "exactly once": true} {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				oneSlotToTwo(t, version, exactlyOnce)
			})
		}
	}
}

func oneSlotToTwo(t *testing.T, version string, exactlyOnce bool) {
	page := readScalingPage(t)
	db := testkit.DedicatedPostgres(t, postgres.Options{Version: version})
	db.Slot, db.Publication = "cdc_outbox", "cdc_outbox" // as on the page
	r := newRig(t, surroundings{db: db, exactlyOnce: exactlyOnce, parts: true})
	old := r.start()
	writers := r.oracle.StartWriters(oracle.Load{Prepared: true})
	t.Cleanup(func() { writers.Stop() })
	before := r.openTransaction()

	r.run(page.block("CREATE PUBLICATION"))
	noted := r.ask(page.query("SELECT pg_snapshot_xmax"))
	r.pause(200*time.Millisecond, 500*time.Millisecond)
	ended := func() bool {
		return r.ask("SELECT ("+page.query("SELECT pg_snapshot_xmin")+")::text::bigint >= "+noted) == "t"
	}
	require.False(t, ended(), "a transaction is open that began before the publications")
	across := r.openTransaction()
	before.commit("the last row of a transaction that was open when the publications were created")
	require.Eventually(t, ended, patience, 20*time.Millisecond)
	end := r.ask(page.query("SELECT pg_current_wal_lsn"))
	require.Eventually(t, func() bool {
		return r.ask("SELECT confirmed_flush_lsn > '"+end+"' FROM pg_replication_slots "+
			"WHERE slot_name = 'cdc_outbox'") == "t"
	}, patience, 20*time.Millisecond)

	code, err := old.Stop(patience)
	require.NoError(t, err)
	require.Zero(t, code)
	require.Contains(t, old.Log(), page.literal("everything that was read is acknowledged and confirmed"))
	r.run(page.block("pg_copy_logical_replication_slot"))

	var parts []*process.Process
	for _, name := range []string{"outbox_0", "outbox_1"} {
		parts = append(parts, r.launch(map[string]string{
			"CDC_OUTBOX_POSTGRES_SLOT": page.literal(name), "CDC_OUTBOX_POSTGRES_PUBLICATION": name,
		}))
	}
	for _, p := range parts {
		require.NoError(t, p.Ready(r.within(patience)))
	}
	r.run(page.block("pg_drop_replication_slot"))
	across.commit("the last row of a transaction that was open when the slot was copied")
	r.pause(500*time.Millisecond, time.Second)
	t.Logf("written: %+v", writers.Stop())

	end = r.ask("SELECT pg_current_wal_lsn()")
	require.Eventually(t, func() bool {
		return r.ask("SELECT count(*) FROM pg_replication_slots WHERE slot_name IN ('outbox_0', 'outbox_1') AND "+
			"confirmed_flush_lsn >= '"+end+"'") == "2"
	}, patience, 50*time.Millisecond)
	rep, err := r.oracle.Verdict(r.within(patience))
	require.NoError(t, err)
	t.Log(rep)
	require.NoError(t, rep.Err())
	require.Zero(t, rep.Duplicates)
	require.Greater(t, rep.Rows, 50, "the writers wrote")
	for _, p := range parts {
		sent, err := p.Metric(`cdc_outbox_events_published_total{topic="` + r.oracle.Topics()[0] + `"}`)
		require.NoError(t, err)
		require.Positive(t, sent, "each slot has a part of the keys")
		require.True(t, p.Running())
	}
}

// openTransaction has written a row of each key that it will write again before it commits.
type openTransaction struct {
	*rig
	conn *pgx.Conn
}

const openRow = `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
	SELECT $1, 'open-' || n, 'Happened', jsonb_build_object('n', n, 'note', $2::text) FROM generate_series(1, 8) n`

func (r *rig) openTransaction() openTransaction {
	r.Helper()
	o := openTransaction{r, connect(r.T, r.db.DSN)}
	_, err := o.conn.Exec(r.Context(), "BEGIN")
	require.NoError(r, err)
	o.write("an early row")
	return o
}

func (o openTransaction) write(note string) {
	o.Helper()
	_, err := o.conn.Exec(o.Context(), openRow, o.db.Name+"_a", note)
	require.NoError(o, err)
}

func (o openTransaction) commit(note string) {
	o.Helper()
	o.write(note)
	_, err := o.conn.Exec(o.Context(), "COMMIT")
	require.NoError(o, err)
}

// run executes statements one after the other, each a transaction of its own, as psql does.
func (r *rig) run(statements []string) {
	r.Helper()
	conn := connect(r.T, r.db.DSN)
	for _, sql := range statements {
		_, err := conn.Exec(r.Context(), sql)
		require.NoError(r, err, sql)
	}
}

// ask returns the one value that a query has, as text.
func (r *rig) ask(sql string) string {
	r.Helper()
	conn, err := pgx.Connect(r.Context(), r.db.DSN)
	require.NoError(r, err)
	defer conn.Close(r.Context())
	results, err := conn.PgConn().Exec(r.Context(), sql).ReadAll()
	require.NoError(r, err, sql)
	require.Len(r, results[0].Rows, 1, sql)
	return string(results[0].Rows[0][0])
}

// scalingPage is docs/scaling.md: what the test does has to be on it.
type scalingPage struct {
	*testing.T
	text string
}

func readScalingPage(t *testing.T) scalingPage {
	t.Helper()
	text, err := os.ReadFile("../../docs/scaling.md")
	require.NoError(t, err)
	return scalingPage{t, string(text)}
}

var sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")

// block is the one block of SQL that contains the words, by statement.
func (p scalingPage) block(words string) (statements []string) {
	p.Helper()
	for _, found := range sqlBlock.FindAllStringSubmatch(p.text, -1) {
		if !strings.Contains(found[1], words) {
			continue
		}
		require.Empty(p, statements, "two blocks with %s", words)
		for _, s := range strings.Split(found[1], ";\n") {
			if s = strings.TrimSpace(s); s != "" {
				statements = append(statements, s)
			}
		}
	}
	require.NotEmpty(p, statements, words)
	return statements
}

// query is the one query between backquotes that begins so.
func (p scalingPage) query(begin string) string {
	p.Helper()
	found := regexp.MustCompile("`("+regexp.QuoteMeta(begin)+"[^`]*)`").FindAllStringSubmatch(p.text, -1)
	require.Len(p, found, 1, begin)
	return found[0][1]
}

// literal is a text between backquotes.
func (p scalingPage) literal(text string) string {
	p.Helper()
	require.Contains(p, p.text, "`"+text+"`")
	return text
}
