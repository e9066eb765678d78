package polling

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// countedClaims counts how often lanes are looked for.
type countedClaims struct {
	claims
	n *atomic.Int64
}

func (c countedClaims) claim(ctx context.Context, s *statements, candidates []int, limit int) ([]int, bool, error) {
	got, more, err := c.claims.claim(ctx, s, candidates, limit)
	c.n.Add(1)
	return got, more, err
}

func TestRelayPublishesEverythingInOrder(t *testing.T) {
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
func TestRelayFindsLateCommits(t *testing.T) {
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

// While Kafka does not acknowledge, nothing is marked, the lanes stay claimed, and no transaction gets old or holds
// back VACUUM.
func TestRelayWaitsForAcknowledgements(t *testing.T) {
	b := newBed(t)
	x := b.start(func(c *Config) { c.Stall = 50 * time.Millisecond })
	x.fake.hold(true)
	b.fill(200, 20)
	x.await("it is with the producer", func() bool { return len(x.fake.sent()) == 200 })
	x.await("not ready", func() bool {
		ok, why := x.r.Ready()
		return !ok && strings.Contains(why, "Kafka has not acknowledged")
	})
	require.Equal(t, 200, b.unpublished())
	var sessions, holding int
	x.await("sessions hold the lanes", func() bool { // but not in the moment in which they renew their claims
		require.NoError(t, b.conn.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE backend_xmin IS NOT
			NULL OR backend_xid IS NOT NULL)
			FROM pg_stat_activity WHERE application_name LIKE 'cdc-outbox/polling %'
			AND state = 'idle in transaction' AND datname = current_database()`).Scan(&sessions, &holding))
		return sessions > 0
	})
	require.Zero(t, holding, "an advisory lock is neither a transaction id nor a snapshot")
	var looked atomic.Int64
	other := b.prepare(func(c *Config) { c.Workers = 1 })
	other.r.workers[0].conn = countedClaims{other.r.workers[0].conn, &looked}
	other.run()
	b.insert(b.conn, "0", 11)
	before := looked.Load()
	other.await("it has looked", func() bool { return looked.Load() >= before+5 })
	require.Empty(t, other.fake.sent(), "the lanes are claimed")
	x.fake.hold(false)
	x.awaitPublished()
	require.Zero(t, ordered(t, append(x.fake.sent(), other.fake.sent()...)))
	require.NoError(t, other.finish())
	require.NoError(t, x.finish())
}

// Another session holds a lane, or a row that has to be marked.
func TestRelayMeetsForeignLocks(t *testing.T) {
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
	x.await("the mark gives up waiting for the row", func() bool {
		return x.logs.FilterMessageSnippet("cannot work with Postgres").Len() > 0
	})
	require.NoError(t, foreign.Rollback(t.Context()))
	x.awaitPublished()
	require.NoError(t, x.finish())
	require.Zero(t, ordered(t, x.fake.sent()), "a mark that waits repeats nothing")
}

func TestRelayRowDeletedMeanwhile(t *testing.T) {
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

func TestRelayDeletes(t *testing.T) {
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
func TestRelayLargeRows(t *testing.T) {
	b := newBed(t)
	b.db.Exec(t, `ALTER TABLE outbox ALTER payload SET STORAGE EXTERNAL;
		INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		SELECT 'order', 'k', 'x', to_jsonb(n || text) FROM generate_series(1, 20) n,
		(SELECT string_agg(md5(g::text), '') text FROM generate_series(1, 40000) g) large`)
	x := b.prepare(func(c *Config) { c.WindowBytes = 3 << 20; c.Workers = 1 })
	x.fake.hold(true)
	x.run()
	x.await("the window is full", func() bool { n, _ := x.r.window.InUse(); return n > 0 })
	x.fake.hold(false)
	x.awaitPublished()
	require.NoError(t, x.finish())
	require.Less(t, cap(x.r.workers[0].batch.arena), 16<<20)
	require.Len(t, x.fake.sent(), 20)
}

// Two relays at once share the lanes; each key's events come from wherever, in order.
func TestRelayOfTwoInstances(t *testing.T) {
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

func TestRelayListens(t *testing.T) {
	b := newBed(t)
	x := b.prepare(func(c *Config) { c.Notify, c.Interval = true, time.Hour; c.LookEvery = time.Hour })
	x.r.pause = time.Hour // on its clock it would not look in this test
	x.run()
	x.await("it hears itself", func() bool { return x.r.Status().Listening })
	for i := range 5 {
		b.insert(b.conn, "k", i+1)
		x.await("published", func() bool { return len(x.fake.sent()) == i+1 })
	}
	require.NoError(t, x.finish())
}

// A row whose topic is missing is not with the producer: it is not acknowledged either, and the relay must not look
// well.
//
// Bug (polling): A polling relay was ready while the next row's topic was missing: nothing was in flight, so nothing
// seemed to wait. Cost: an unreported standstill.
func TestRelayNotReadyWithMissingTopic(t *testing.T) {
	b := newBed(t)
	x := b.start(func(c *Config) { c.Stall = feedWait + 500*time.Millisecond })
	x.await("ready", func() bool { ok, _ := x.r.Ready(); return ok })
	x.fake.block(true)
	b.insert(b.conn, "k", 1, 2)
	x.await("not ready", func() bool {
		ok, why := x.r.Ready()
		return !ok && strings.Contains(why, "Kafka has not acknowledged")
	})
	claim := func() (began *time.Time) {
		require.NoError(t, b.conn.QueryRow(t.Context(), `SELECT min(xact_start) FROM pg_stat_activity
			WHERE application_name LIKE 'cdc-outbox/polling %' AND state = 'idle in transaction'
			AND datname = current_database()`).Scan(&began))
		return began
	}
	var first *time.Time
	x.await("it holds its claim", func() bool { first = claim(); return first != nil })
	x.await("its claim is renewed", func() bool { now := claim(); return now != nil && now.After(*first) })
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
//
// Bug (polling): A polling relay marked rows by lane and number, so a row with the same number as a row in flight was
// marked with it. Cost: a row that is never published, if a service assigns the numbers itself.
func TestRelayMarksRowThatWasRead(t *testing.T) {
	b := newBed(t)
	write := func(n int) {
		b.db.Exec(t, fmt.Sprintf(`INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload,
			seq) OVERRIDING SYSTEM VALUE
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

// A kick after a commit brings the row at once, however long the relay would sleep. A kick while no worker waits is
// kept.
func TestRelayKicked(t *testing.T) {
	b := newBed(t)
	x := b.prepare(func(c *Config) { c.Interval, c.Workers = time.Hour, 1 })
	x.r.pause = time.Hour
	x.r.Kick()
	x.run()
	x.await("it took the kick, found nothing, and sleeps for an hour", func() bool {
		return len(x.r.scout) == 0 && len(x.r.wake) == 0
	})
	b.fill(1, 1)
	x.r.Kick()
	x.r.Kick()
	x.awaitPublished()
	require.NoError(t, x.finish())
}
