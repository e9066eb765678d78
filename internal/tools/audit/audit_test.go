package audit

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/progress"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type silent struct{}

func (silent) Say(string)                {}
func (silent) Step(progress.Step)        {}
func (silent) Wait(progress.Wait) func() { return func() {} }

// A window does not end after the begin of a transaction that may still commit rows into it.
//
// Bug (letters): Rows of a transaction that was open for longer than --grace were in no window of audit. Cost: three
// audits in a row called an event handled once that nothing had handled.
func TestAuditWaitsForOpenTransactions(t *testing.T) {
	db := testkit.Postgres(t)
	db.Exec(t, `CREATE TABLE outbox (id text PRIMARY KEY, aggregate_type text, created_at timestamptz DEFAULT now());
		CREATE TABLE processed_events (consumer text COLLATE "C", event_id text COLLATE "C", status text, source text,
		claimed_at timestamptz, completed_at timestamptz, PRIMARY KEY (consumer, event_id))`)
	o := Options{
		DSN: db.DSN, Since: time.Hour, Grace: time.Microsecond, Examples: 10, Progress: silent{},
		Ledgers: []Ledger{{Consumer: "billing", Table: "processed_events"}},
		Admin: setup.Config{Objects: postgres.Objects{
			Slot: db.Slot, Publication: db.Publication, Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
			Columns: postgres.Columns{ID: "id", AggregateType: "aggregate_type", Timestamp: "created_at"},
		}},
	}
	late, err := pgx.Connect(t.Context(), db.DSN)
	require.NoError(t, err)
	defer late.Close(t.Context())
	for name, ends := range map[string]string{"open": "COMMIT", "prepared": "COMMIT PREPARED 'it''s'"} {
		t.Run(name, func(t *testing.T) {
			_, err := late.Exec(t.Context(), "BEGIN")
			require.NoError(t, err)
			var began time.Time
			require.NoError(t, late.QueryRow(t.Context(),
				"INSERT INTO outbox VALUES ('"+name+"') RETURNING created_at").Scan(&began))
			if name == "prepared" {
				_, err = late.Exec(t.Context(), "PREPARE TRANSACTION 'it''s'")
				require.NoError(t, err)
				defer func() { _, _ = late.Exec(context.Background(), "ROLLBACK PREPARED 'it''s'") }()
			}
			r, err := Run(t.Context(), o)
			require.NoError(t, err)
			require.True(t, r.Clean)
			require.NotNil(t, r.HeldBack)
			require.Equal(t, name == "prepared", r.HeldBack.Prepared)
			if name == "open" {
				require.Equal(t, began.UTC(), r.Until, "the next window begins before the row")
				require.Contains(t, r.Text(), fmt.Sprintf("session %d ", late.PgConn().PID()))
			} else {
				require.Contains(t, r.Text(), "prepared transaction 'it''s'")
				require.Contains(t, r.Text(), "not seen: rows of that transaction")
			}
			_, err = late.Exec(t.Context(), ends)
			require.NoError(t, err)
			r, err = Run(t.Context(), o)
			require.NoError(t, err)
			require.Nil(t, r.HeldBack)
			require.False(t, r.Clean, "the row is in the window now")
			db.Exec(t, "TRUNCATE outbox")
		})
	}
}

// Every kind is found, by its id, and nothing else is: neither what is younger than the window's end, nor what was
// handled late, nor another consumer's events.
func TestAuditFindsEachKind(t *testing.T) {
	db, books := testkit.Postgres(t), testkit.Postgres(t)
	db.Exec(t, `CREATE TABLE outbox (id text, aggregate_type text, aggregate_id text, event_type text, payload jsonb,
		created_at timestamptz)`)
	books.Exec(t, `CREATE SCHEMA s; CREATE TABLE s."Book" (consumer text COLLATE "C", event_id text COLLATE "C",
		status text, source text, claimed_at timestamptz, completed_at timestamptz, PRIMARY KEY (consumer, event_id))`)
	now := time.Now() // of both sides, whatever the statements take
	ago := func(age time.Duration) string { return now.Add(-age).Format(time.RFC3339Nano) }
	row := func(id, kind string, age time.Duration) {
		db.Exec(t, fmt.Sprintf(`INSERT INTO outbox VALUES ('%s', '%s', 'k', 'x', '{}', '%s')`, id, kind, ago(age)))
	}
	handle := func(consumer, id, status string, age time.Duration) {
		books.Exec(t, fmt.Sprintf(`INSERT INTO s."Book" VALUES ('%s', '%s', '%s', NULL, '%s', '%[4]s')`, consumer, id,
			status, ago(age)))
	}
	row("anchor", "order", 100*time.Hour) // the table reaches back
	for i := range 20 {
		id := fmt.Sprintf("ok%d", i)
		row(id, "order", 2*time.Hour)
		handle("billing", id, "COMPLETED", 2*time.Hour-3*time.Second)
	}
	row("Late", "order", 2*time.Hour)
	handle("billing", "Late", "COMPLETED", time.Minute) // after the window
	row("young", "order", time.Minute)
	row("mail1", "mail", 2*time.Hour) // not billing's
	row("lost", "order", 3*time.Hour)
	row("same", "order", 2*time.Hour)
	row("same", "order", 2*time.Hour)
	handle("billing", "same", "COMPLETED", 2*time.Hour)
	row("begun", "order", 2*time.Hour)
	handle("billing", "begun", "PROCESSING", 2*time.Hour)
	row("old", "order", 30*time.Hour) // before the window, handled in it
	handle("billing", "old", "COMPLETED", 20*time.Hour)
	handle("billing", "ghost", "COMPLETED", 2*time.Hour)
	handle("another", "ghost2", "COMPLETED", 2*time.Hour)

	o := Options{
		DSN: db.DSN, Since: 24 * time.Hour, Grace: 5 * time.Minute, Within: time.Minute, Wait: 0,
		Examples: 10, Progress: silent{},
		Admin: setup.Config{Objects: postgres.Objects{
			Slot: db.Slot, Publication: db.Publication,
			Tables: []identifier.Table{{Schema: "public", Name: "outbox"}},
			Columns: postgres.Columns{
				ID: "id", AggregateType: "aggregate_type", AggregateID: "aggregate_id", Timestamp: "created_at",
			},
		}},
	}
	var err error
	o.Ledgers, err = ParseLedgers([]string{"billing=" + books.DSN}, `s."Book"`, []string{"billing=order"})
	require.NoError(t, err)
	found := func(r *Report) map[Kind][]string {
		all := map[Kind][]string{}
		for kind, f := range r.Consumers[0].Findings {
			require.EqualValues(t, len(f.Examples), f.Count)
			for _, e := range f.Examples {
				all[kind] = append(all[kind], e.ID)
			}
		}
		return all
	}

	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.False(t, r.Confirmed, "there is no slot")
	want := map[Kind][]string{
		Unpublished: {"lost"}, SameID: {"same"}, Unfinished: {"begun"}, Ghost: {"ghost"},
	}
	require.Equal(t, want, found(r))
	require.EqualValues(t, 25, r.Consumers[0].Events)
	require.EqualValues(t, 23, r.Consumers[0].Handled)
	require.EqualValues(t, 3, r.Consumers[0].Late, "Late, lost and begun")
	require.Contains(t, r.Text(), "; within 1 min: 88%")
	require.InDelta(t, 3, r.Consumers[0].Seconds.P50, 0.1)
	require.InDelta(t, 7140, r.Consumers[0].Seconds.Max, 5)
	require.InDelta(t, 3*3600, r.Consumers[0].Findings[Unpublished].OldestSeconds, 60)
	require.Equal(t, fault.Operator, fault.KindOf(r.Err()))

	db.Exec(t, `SELECT pg_create_logical_replication_slot('`+db.Slot+`', 'pgoutput')`)
	db.Exec(t, `SELECT pg_logical_emit_message(true, 'x', 'written after the slot')`)
	r, err = Run(t.Context(), o)
	require.NoError(t, err)
	require.False(t, r.Confirmed, "no process reads the slot")
	delete(want, Unpublished)
	want[Unhandled] = []string{"lost"}
	require.Eventually(t, func() bool { // the server may write something in between
		db.Exec(t, `SELECT pg_replication_slot_advance('`+db.Slot+`', pg_current_wal_insert_lsn())`)
		r, err = Run(t.Context(), o)
		require.NoError(t, err)
		return r.Confirmed
	}, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, want, found(r), "the slot says that the row is published")
	db.Exec(t, `ALTER TABLE outbox ADD published_at timestamptz; UPDATE outbox SET published_at = now()`)
	o.Published = "published_at"
	r, err = Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, want, found(r))
	require.Contains(t, r.Text(), "✗ unhandled: 1 published, and not handled; oldest 3 h")
	require.Contains(t, r.Prometheus(), `cdc_outbox_audit_findings{consumer="billing",kind="ghost"} 1`)

	db.Exec(t, `DELETE FROM outbox WHERE id IN ('anchor', 'old')`)
	r, err = Run(t.Context(), o)
	require.NoError(t, err)
	require.NotContains(t, found(r), Ghost, "prune may have deleted the row")
	require.EqualValues(t, 2, r.Consumers[0].NotJudged)
	o.Complete = true
	r, err = Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []string{"ghost", "old"}, found(r)[Ghost])

	o.Ledgers[0].Table = `"nothing"`
	_, err = Run(t.Context(), o)
	require.Equal(t, fault.Config, fault.KindOf(err), "not the exit code of a finding: %v", err)
}

// The merge visits what a map of both sides would, for any two sets.
func TestMergeIsTheJoin(t *testing.T) {
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var left, right []string
		for range rnd.IntN(12) {
			left = append(left, fmt.Sprint(rnd.IntN(9)))
		}
		for i := range 9 {
			if rnd.IntN(2) == 0 {
				right = append(right, fmt.Sprint(i))
			}
		}
		slices.Sort(left)
		var want, got []string
		for _, id := range left {
			want = append(want, fmt.Sprintf("%s %t", id, slices.Contains(right, id)))
		}
		for _, id := range right {
			if !slices.Contains(left, id) {
				want = append(want, id+" alone")
			}
		}
		require.NoError(t, merge(each(left, func(id string) event { return event{id: id} }),
			each(right, func(id string) handled { return handled{id: id} }), func(e *event, h *handled) error {
				switch {
				case e == nil:
					got = append(got, h.id+" alone")
				default:
					got = append(got, fmt.Sprintf("%s %t", e.id, h != nil))
				}
				return nil
			}))
		slices.Sort(want)
		slices.Sort(got)
		require.Equal(t, want, got, seed)
	}
	err := merge(each([]string{"b", "a"}, func(id string) event { return event{id: id} }),
		each(nil, func(id string) handled { return handled{id: id} }), func(*event, *handled) error { return nil })
	require.ErrorContains(t, err, "not ordered")
}

func each[T any](ids []string, of func(string) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, id := range ids {
			if !yield(of(id), nil) {
				return
			}
		}
	}
}

func TestPercentiles(t *testing.T) {
	var a ages
	for i := 1; i <= 1000; i++ {
		a.add(time.Duration(i) * time.Second)
	}
	p := a.percentiles()
	require.InEpsilon(t, 500, p.P50, 0.02)
	require.InEpsilon(t, 900, p.P90, 0.02)
	require.InEpsilon(t, 990, p.P99, 0.02)
	require.InDelta(t, 1000, p.Max, 0)
	require.Zero(t, (&ages{}).percentiles().P99)
	require.NotContains(t, strings.ToLower((&Report{Clean: true}).Text()), "nan")
}

// TestAnEmptyWindowProvesNothing: the report does not say that every event was handled when it has judged none.
func TestAnEmptyWindowProvesNothing(t *testing.T) {
	r := Report{Clean: true, Consumers: []Consumer{{Name: "billing"}, {Name: "mail"}}}
	require.Contains(t, r.Text(), "✓ no event lies in the window; --grace says how long ago it ends")
	r.Consumers[1].Events = 1
	require.Contains(t, r.Text(), "✓ every event of the window was published and handled once")
}
