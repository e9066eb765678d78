package polling

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/router"
)

func TestRelay_publishes_everything_in_order(t *testing.T) {
	b := newBed(t)
	b.fill(5000, 40)
	x := b.start()
	b.fill(0, 40)
	x.awaitPublished()
	require.NoError(t, x.finish())
	all := x.fake.sent()
	require.Len(t, all, 5000)
	require.Zero(t, ordered(t, all))
	require.Equal(t, "order.events", all[0].topic)
	require.NotContains(t, all[0].headers, "position", "a table does not tell it")
	require.Equal(t, uint64(5000), x.r.Status().Counts.Published)
}

// Transactions that commit out of the order of their sequence and time are found, each after its commit.
func TestRelay_finds_late_commits(t *testing.T) {
	b := newBed(t)
	early, err := connect(t, b.db).Begin(t.Context())
	require.NoError(t, err)
	for i := range 100 {
		b.insert(early, "early-"+text(i), 1)
	}
	x := b.start()
	for i := range 100 { // later numbers, committed first; the same lanes
		b.insert(b.conn, "late-"+text(i), 1)
	}
	x.awaitPublished()
	require.Len(t, x.fake.sent(), 100)
	require.NoError(t, early.Commit(t.Context()))
	x.awaitPublished()
	require.Len(t, x.fake.sent(), 200)
	require.Zero(t, ordered(t, x.fake.sent()))
	rolled, err := b.conn.Begin(t.Context())
	require.NoError(t, err)
	b.insert(rolled, "never", 1)
	require.NoError(t, rolled.Rollback(t.Context()))
	b.insert(b.conn, "after", 1)
	x.awaitPublished()
	require.Len(t, x.fake.sent(), 201, "what was rolled back is nowhere")
}

// While Kafka does not acknowledge, nothing is marked, the lanes stay claimed, and no transaction gets old or holds back VACUUM.
func TestRelay_waits_for_acknowledgements(t *testing.T) {
	b := newBed(t)
	x := b.start(func(c *Config) { c.Stall = 50 * time.Millisecond })
	x.fake.hold(true)
	b.fill(200, 20)
	x.await("it is with the producer", func() bool { return len(x.fake.sent()) == 200 })
	x.await("not ready", func() bool { ok, _ := x.r.Ready(); return !ok })
	_, why := x.r.Ready()
	require.Contains(t, why, "Kafka has not acknowledged")
	require.Equal(t, 200, b.unpublished())
	var sessions, holding int
	require.NoError(t, b.conn.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
		FROM pg_stat_activity WHERE application_name LIKE 'cdc-outbox/polling %' AND state = 'idle in transaction'`).Scan(&sessions, &holding))
	require.Positive(t, sessions)
	require.Zero(t, holding, "an advisory lock is neither a transaction id nor a snapshot")
	other := b.start()
	b.insert(b.conn, "0", 11)
	time.Sleep(200 * time.Millisecond)
	require.Empty(t, other.fake.sent(), "the lanes are claimed")
	x.fake.hold(false)
	x.awaitPublished()
	require.Zero(t, ordered(t, append(x.fake.sent(), other.fake.sent()...)))
	require.NoError(t, other.finish())
	require.NoError(t, x.finish())
}

// A connection that is lost while records are in flight repeats nothing: they are this process's until they are marked.
func TestRelay_loses_its_connections(t *testing.T) {
	b := newBed(t)
	x := b.start()
	for range 5 {
		x.fake.hold(true)
		at := len(x.fake.sent())
		b.fillMore(300, 30)
		x.await("some are with the producer", func() bool { return len(x.fake.sent()) > at })
		b.db.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'cdc-outbox/polling %'")
		x.fake.hold(false)
		x.awaitPublished()
	}
	require.NoError(t, x.finish())
	require.Zero(t, ordered(t, x.fake.sent()))
	require.Len(t, x.fake.sent(), 1500)
}

// What a process that is killed had in flight is repeated by the next one, and nothing else.
func TestRelay_killed_between_acknowledgement_and_mark(t *testing.T) {
	b := newBed(t)
	b.fill(300, 30)
	x := b.start(func(c *Config) { c.DrainLimit = time.Millisecond })
	x.fake.hold(true)
	x.await("all are with the producer", func() bool { return len(x.fake.sent()) == 300 })
	_ = x.finish() // its time is over before anything is acknowledged
	require.Equal(t, 300, b.unpublished())
	y := b.start()
	y.awaitPublished()
	require.NoError(t, y.finish())
	require.Equal(t, 300, ordered(t, append(x.fake.sent(), y.fake.sent()...)), "in flight was all of it")
}

func TestRelay_stops_gracefully(t *testing.T) {
	b := newBed(t)
	b.fill(20_000, 100)
	x := b.start()
	x.await("it has begun", func() bool { return len(x.fake.sent()) > 2000 })
	require.NoError(t, x.finish())
	n := len(x.fake.sent())
	require.Less(t, n, 20_000)
	require.Equal(t, 20_000-n, b.unpublished(), "everything that was sent is marked")
	y := b.start()
	y.awaitPublished()
	require.NoError(t, y.finish())
	require.Zero(t, ordered(t, append(x.fake.sent(), y.fake.sent()...)))
	require.Len(t, append(x.fake.sent(), y.fake.sent()...), 20_000)
}

// Somebody else holds a lane, or a row that has to be marked.
func TestRelay_meets_foreign_locks(t *testing.T) {
	b := newBed(t)
	lane := laneOf([]byte("k"))
	foreign, err := b.conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = foreign.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1, $2)", lockClass(theTable), lane)
	require.NoError(t, err)
	x := b.start()
	other := connect(t, b.db)
	b.insert(other, "k", 1)
	b.insert(other, "another", 1)
	x.await("the other lane goes on", func() bool { return len(x.fake.sent()) == 1 })
	require.Equal(t, "another", x.fake.sent()[0].key)
	require.NoError(t, foreign.Rollback(t.Context()))
	x.await("the lane is free", func() bool { return len(x.fake.sent()) == 2 })
	x.awaitPublished()

	x.fake.hold(true)
	b.insert(b.conn, "k", 2)
	x.await("it is with the producer", func() bool { return len(x.fake.sent()) == 3 })
	foreign, err = b.conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = foreign.Exec(t.Context(), "SELECT FROM outbox WHERE aggregate_id = 'k' AND payload->>'n' = '2' FOR UPDATE")
	require.NoError(t, err)
	x.fake.hold(false)
	b.insert(other, "another", 2)
	x.await("others go on meanwhile", func() bool { return len(x.fake.sent()) == 4 })
	time.Sleep(lockTimeout + 500*time.Millisecond)
	require.NoError(t, foreign.Rollback(t.Context()))
	x.awaitPublished()
	require.NoError(t, x.finish())
	require.Zero(t, ordered(t, x.fake.sent()), "a mark that waits repeats nothing")
}

func TestRelay_row_deleted_meanwhile(t *testing.T) {
	b := newBed(t)
	x := b.start()
	x.fake.hold(true)
	b.fill(100, 10)
	x.await("all are with the producer", func() bool { return len(x.fake.sent()) == 100 })
	b.db.Exec(t, "DELETE FROM outbox WHERE aggregate_id = '3'")
	x.fake.hold(false)
	x.awaitPublished()
	b.insert(b.conn, "3", 11)
	x.awaitPublished()
	require.NoError(t, x.finish())
	require.Zero(t, ordered(t, x.fake.sent()))
}

func TestRelay_statement_timeout(t *testing.T) {
	b := newBed(t)
	var hurried atomic.Bool
	hurried.Store(true)
	x := b.start(func(c *Config) {
		c.DSN = func() (string, error) {
			if hurried.Load() {
				return b.db.DSN + "&options=-c%20statement_timeout%3D1ms", nil
			}
			return b.db.DSN, nil
		}
	})
	b.fill(2000, 10)
	x.await("it says so", func() bool { return x.logs.FilterMessageSnippet("Cannot work with Postgres").Len() > 0 })
	hurried.Store(false)
	b.db.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'cdc-outbox/polling %'")
	x.awaitPublished()
	require.NoError(t, x.finish())
	require.Zero(t, ordered(t, x.fake.sent()))
}

func TestRelay_deletes(t *testing.T) {
	b := newBed(t)
	b.fill(1000, 10)
	x := b.start(func(c *Config) { c.After = Delete })
	x.awaitPublished()
	require.NoError(t, x.finish())
	require.Zero(t, ordered(t, x.fake.sent()))
	var n int
	require.NoError(t, b.conn.QueryRow(t.Context(), "SELECT count(*) FROM outbox").Scan(&n))
	require.Zero(t, n)
}

// Large rows are read a few at a time, and the window bounds what is in flight.
func TestRelay_large_rows(t *testing.T) {
	b := newBed(t)
	b.db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		SELECT 'order', 'k', 'x', to_jsonb(string_agg(md5(random()::text), '')) FROM generate_series(1, 40) a, generate_series(1, 40000) GROUP BY a`)
	x := b.start(func(c *Config) { c.WindowBytes = 3 << 20; c.Workers = 1 })
	x.await("the window is full", func() bool { n, _ := x.r.window.InUse(); return n > 0 })
	x.awaitPublished()
	require.Less(t, cap(x.r.workers[0].batch.arena), 16<<20)
	require.NoError(t, x.finish())
	require.Len(t, x.fake.sent(), 40)
}

// A row that cannot be published stops its lane only, and the lane goes on when it was corrected or deleted.
func TestRelay_halts_a_lane(t *testing.T) {
	b := newBed(t)
	b.db.Exec(t, "ALTER TABLE outbox DROP CONSTRAINT outbox_aggregate_type_check")
	x := b.start()
	bad := func(key string, n int) {
		_, err := b.conn.Exec(t.Context(), `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES ('ä', $1, 'x', jsonb_build_object('n', $2::int))`, key, n)
		require.NoError(t, err)
	}
	b.insert(b.conn, "k", 1)
	bad("k", 2)
	b.insert(b.conn, "k", 3)
	bad("j", 1)
	b.insert(b.conn, "j", 2)
	b.insert(b.conn, "another", 1)
	x.await("all lanes go on as far as they can", func() bool { return b.unpublished() == 4 })
	require.Len(t, x.fake.sent(), 2)
	x.await("both are halted", func() bool { return len(x.r.Status().Halted) == 2 })
	st := x.r.Status()
	require.False(t, st.Ready)
	require.Equal(t, Halted, st.State.Name)
	require.Contains(t, st.ReadyReason, "2 of 64 lanes halted")
	b.db.Exec(t, "UPDATE outbox SET aggregate_type = 'order' WHERE aggregate_id = 'k'")
	b.db.Exec(t, "DELETE FROM outbox WHERE aggregate_id = 'j' AND aggregate_type = 'ä'")
	x.awaitPublished()
	x.await("ready again", func() bool { ok, _ := x.r.Ready(); return ok })
	require.NoError(t, x.finish())
	var k []string
	for _, s := range x.fake.sent() {
		if s.key == "k" {
			k = append(k, s.value)
		}
	}
	require.Equal(t, []string{`{"n": 1}`, `{"n": 2}`, `{"n": 3}`}, k)
	require.Equal(t, 2, x.logs.FilterMessageSnippet("Halted at an outbox row").Len(), "each is told once")
}

func TestRelay_bad_rows_by_policy(t *testing.T) {
	for policy, want := range map[BadRow]int{Skip: 2, DeadLetter: 3} {
		t.Run(string(policy), func(t *testing.T) {
			b := newBed(t)
			b.db.Exec(t, "ALTER TABLE outbox DROP CONSTRAINT outbox_aggregate_type_check")
			b.insert(b.conn, "k", 1)
			b.db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES ('ä', 'k', 'x')`)
			b.insert(b.conn, "k", 2)
			x := b.start(func(c *Config) { c.Policy = func(router.Reason) BadRow { return policy } })
			x.awaitPublished()
			require.NoError(t, x.finish())
			require.Len(t, x.fake.sent(), want)
			if policy == DeadLetter {
				require.Equal(t, "letters", x.fake.sent()[1].topic)
				require.Equal(t, uint64(1), x.r.Status().Counts.DeadLettered)
			}
		})
	}
}

func TestRelay_record_too_large_for_its_topic(t *testing.T) {
	b := newBed(t)
	x := b.start()
	x.fake.refusing(func(r *router.Record) error {
		if string(r.Key) == "k" {
			return &kafka.RefusedError{Topic: r.Topic, Bytes: 2000, Limit: 1000, Reason: kafka.TooLarge}
		}
		return nil
	})
	b.insert(b.conn, "k", 1, 2)
	b.insert(b.conn, "another", 1)
	x.await("halted", func() bool { return len(x.r.Status().Halted) == 1 && len(x.fake.sent()) == 1 })
	require.Contains(t, x.r.Status().Halted[0].Next, "max.message.bytes")
	x.fake.refusing(nil)
	x.awaitPublished()
	require.NoError(t, x.finish())
	require.Zero(t, ordered(t, x.fake.sent()))
}

// Two relays at once share the lanes; each key's events come from wherever, in order.
func TestRelay_in_company(t *testing.T) {
	b := newBed(t)
	x, y := b.start(), b.start(func(c *Config) { c.Batch = 50 })
	for i := range 50 {
		tx, err := b.conn.BeginTx(t.Context(), pgx.TxOptions{})
		require.NoError(t, err)
		for k := range 40 {
			b.insert(tx, text(k), i+1)
		}
		require.NoError(t, tx.Commit(t.Context()))
	}
	x.awaitPublished()
	require.NoError(t, x.finish())
	require.NoError(t, y.finish())
	require.Len(t, append(x.fake.sent(), y.fake.sent()...), 2000, "nothing twice")
	t.Logf("%d and %d", len(x.fake.sent()), len(y.fake.sent()))
}

func TestRelay_listens(t *testing.T) {
	b := newBed(t)
	x := b.start(func(c *Config) { c.Notify, c.Interval = true, 10*time.Second; c.LookEvery = time.Hour })
	x.await("it hears itself", func() bool { return x.r.Status().Listening })
	for i := range 5 {
		began := time.Now()
		b.insert(b.conn, "k", i+1)
		x.await("published", func() bool { return len(x.fake.sent()) == i+1 })
		require.Less(t, time.Since(began), 1500*time.Millisecond)
		time.Sleep(50 * time.Millisecond)
	}
	require.NoError(t, x.finish())
}

// fillMore goes on counting where the table ends.
func (b *bed) fillMore(rows, keys int) {
	b.Helper()
	b.db.Exec(b, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		SELECT 'order', (g %% %[2]d)::text, 'x', jsonb_build_object('n', (SELECT count(*) FROM outbox) / %[2]d + g / %[2]d + 1) FROM generate_series(0, %[1]d - 1) g ORDER BY g`, rows, keys))
}

// A row whose topic is missing is with nobody: it is not acknowledged either, and the relay must not look well.
func TestRelay_is_not_ready_at_a_missing_topic(t *testing.T) {
	b := newBed(t)
	x := b.start(func(c *Config) { c.Stall = feedWait + 500*time.Millisecond })
	x.await("ready", func() bool { ok, _ := x.r.Ready(); return ok })
	x.fake.block(true)
	b.insert(b.conn, "k", 1, 2)
	x.await("not ready", func() bool { ok, _ := x.r.Ready(); return !ok })
	time.Sleep(renewEvery + 500*time.Millisecond) // its claim is made anew meanwhile
	ok, why := x.r.Ready()
	require.False(t, ok)
	require.Contains(t, why, "Kafka has not acknowledged")
	x.fake.block(false)
	x.awaitPublished()
	x.await("ready again", func() bool { ok, _ := x.r.Ready(); return ok })
	require.NoError(t, x.finish())
	require.Zero(t, ordered(t, x.fake.sent()))
	require.Len(t, x.fake.sent(), 2)
}

// Numbers that are not the database's own may come twice. What is marked is the row that Kafka has, not its namesake.
func TestRelay_marks_the_row_that_was_read(t *testing.T) {
	b := newBed(t)
	write := func(n int) {
		b.db.Exec(t, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, seq) OVERRIDING SYSTEM VALUE
			VALUES ('order', 'k', 'x', jsonb_build_object('n', %d), 7)`, n))
	}
	x := b.start()
	x.fake.hold(true)
	write(1)
	x.await("it is with the producer", func() bool { return len(x.fake.sent()) == 1 })
	write(2)
	x.fake.hold(false)
	x.awaitPublished()
	require.NoError(t, x.finish())
	require.Zero(t, ordered(t, x.fake.sent()))
	require.Len(t, x.fake.sent(), 2)
}
