package polling

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// TestProcessesAgreeOnAHaltedRow: each process that polls halts at the row and says so, and when one of them has passed
// it, or it was deleted, the others soon no longer say so.
//
// Bug (polling): Of two processes that poll, both alerted about a halted row, and when one had passed it, or it was
// deleted, the other said for seconds more that it halts. Cost: an alert of a row that is over.
func TestProcessesAgreeOnAHaltedRow(t *testing.T) {
	b := newBed(t)
	b.db.Exec(t, "ALTER TABLE outbox DROP CONSTRAINT outbox_aggregate_type_check")
	late := func(c *Config) { c.LookEvery = time.Hour } // at the backlog: halted rows have a clock of their own
	x, y := b.prepare(late), b.prepare(late)
	for _, one := range []*relaying{x, y} {
		one.r.again = time.Hour // that a row is over is noticed without trying it again
		one.run()
	}
	for _, over := range []func(*relay.HaltedRow){
		func(h *relay.HaltedRow) {
			x.r.Decide(relay.Decision{Position: h.Position, EventID: h.EventID, Action: relay.Skip})
		},
		func(*relay.HaltedRow) { b.db.Exec(t, "DELETE FROM outbox WHERE aggregate_type = 'ä'") },
	} {
		b.bad("k")
		h := x.haltedAt()
		require.Equal(t, h.Position, y.haltedAt().Position)
		over(h)
		for _, one := range []*relaying{x, y} {
			one.await("it no longer says so", func() bool { return len(one.r.Halted()) == 0 })
			one.await("ready", func() bool { ready, _ := one.r.Ready(); return ready })
		}
	}
	for _, one := range []*relaying{x, y} {
		require.NoError(t, one.finish())
		require.Equal(t, 2, one.logs.FilterMessageSnippet("halted at an outbox row").Len(), "each row is reported once")
	}
}

// TestAHaltLastsWhateverABatchShows: the lane of a halted row is read again with a batch that is full before it gets to
// the row, and with a row in front of it that was committed late.
//
// Bug (polling): A lane that halted at a row counted as free when its next batch ended before the row, full or at a row
// that was committed late. Cost: alert, log line and counter of one row again and again, and ready in between.
func TestAHaltLastsWhateverABatchShows(t *testing.T) {
	b := newBed(t)
	b.db.Exec(t, "ALTER TABLE outbox DROP CONSTRAINT outbox_aggregate_type_check")
	late, err := connect(t, b.db).Begin(t.Context())
	require.NoError(t, err)
	b.insert(late, "k", 1)
	x := b.start(func(c *Config) { c.Workers = 1 })
	b.bad("k")
	h := x.haltedAt()
	again := func() { x.r.sources[0].lanes.wake(laneOf([]byte("k"))); x.r.signal() }
	for range 5 {
		b.db.Exec(t, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
			SELECT 'order', 'large' || g, 'x', to_jsonb(repeat('x', 500000)) FROM generate_series(1, 40) g`)
		again()
		x.await("the others are published", func() bool { return b.unpublished() == 1 })
	}
	require.Equal(t, h.Since, x.r.Halted()[0].Since, "a full batch")
	require.NoError(t, late.Commit(t.Context()))
	again()
	x.await("the late row is published", func() bool { return b.unpublished() == 1 && len(x.fake.sent()) == 201 })
	require.Equal(t, h.Since, x.r.Halted()[0].Since, "a late row")
	require.NoError(t, x.finish())
	require.Equal(t, 1, x.logs.FilterMessageSnippet("halted at an outbox row").Len())
	require.Zero(t, x.logs.FilterMessageSnippet("no longer exists or was corrected").Len())
}

// TestHaltedLanesAreAskedAboutTogether: a row that was deleted is forgotten, and no other row.
func TestHaltedLanesAreAskedAboutTogether(t *testing.T) {
	b := newBed(t)
	b.db.Exec(t, "ALTER TABLE outbox DROP CONSTRAINT outbox_aggregate_type_check")
	x := b.start(func(c *Config) { c.LookEvery = time.Hour })
	for _, key := range []string{"k", "j", "another"} {
		b.bad(key)
	}
	x.await("all are halted", func() bool { return len(x.r.Halted()) == 3 })
	was := x.r.Halted()
	b.db.Exec(t, "DELETE FROM outbox WHERE id = '"+was[1].EventID+"'")
	x.await("one is forgotten", func() bool { return len(x.r.Halted()) < 3 })
	require.Equal(t, []*relay.HaltedRow{was[0], was[2]}, x.r.Halted())
	require.NoError(t, x.finish())
}
