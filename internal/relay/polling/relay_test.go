package polling

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

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
	time.Sleep(lockTimeout + 500*time.Millisecond)
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
	b.db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		SELECT 'order', 'k', 'x', to_jsonb(string_agg(md5(random()::text), ''))
		FROM generate_series(1, 40) a, generate_series(1, 40000) GROUP BY a`)
	x := b.prepare(func(c *Config) { c.WindowBytes = 3 << 20; c.Workers = 1 })
	x.fake.hold(true)
	x.run()
	x.await("the window is full", func() bool { n, _ := x.r.window.InUse(); return n > 0 })
	x.fake.hold(false)
	x.awaitPublished()
	require.NoError(t, x.finish())
	require.Less(t, cap(x.r.workers[0].batch.arena), 16<<20)
	require.Len(t, x.fake.sent(), 40)
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
	x := b.start(func(c *Config) { c.Notify, c.Interval = true, 10*time.Second; c.LookEvery = time.Hour })
	x.await("it hears itself", func() bool { return x.r.Status().Listening })
	for i := range 5 {
		began := time.Now()
		b.insert(b.conn, "k", i+1)
		x.await("published", func() bool { return len(x.fake.sent()) == i+1 })
		require.Less(t, time.Since(began), 8*time.Second, "less than the interval")
		time.Sleep(50 * time.Millisecond)
	}
	require.NoError(t, x.finish())
}

// A row whose topic is missing is not with the producer: it is not acknowledged either, and the relay must not look
// well.
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
	time.Sleep(renewEvery + 500*time.Millisecond) // its claim is renewed meanwhile
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
