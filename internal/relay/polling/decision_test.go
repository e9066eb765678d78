package polling

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// bad writes a row for which there is no topic.
func (b *bed) bad(key string) {
	b.Helper()
	b.db.Exec(b, `INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
		VALUES ('ä', '`+key+`', 'x', '{"n": 2}')`)
}

// haltedAt waits until one lane is halted.
func (x *relaying) haltedAt() *relay.HaltedRow {
	x.Helper()
	x.await("halted", func() bool { return len(x.r.Halted()) == 1 })
	return x.r.Halted()[0]
}

// TestAHaltedRowIsPassedByDecision: this row alone, as was decided, and the rows after it in their order.
func TestAHaltedRowIsPassedByDecision(t *testing.T) {
	for action, want := range map[relay.Policy]int{relay.Skip: 3, relay.DeadLetter: 4} {
		for _, after := range []After{Mark, Delete} {
			t.Run(string(action)+" "+string(after), func(t *testing.T) {
				b := newBed(t)
				b.db.Exec(t, "ALTER TABLE outbox DROP CONSTRAINT outbox_aggregate_type_check")
				x := b.start(func(c *Config) { c.After = after })
				b.insert(b.conn, "k", 1)
				b.bad("k")
				b.insert(b.conn, "k", 3)
				h := x.haltedAt()
				require.Len(t, h.Commands, 1)
				require.Contains(t, h.Commands[0], "cdc-outbox row pass "+h.EventID)
				x.r.Decide(relay.Decision{Position: h.Position, EventID: "another", Action: action})
				x.r.Decide(relay.Decision{Position: h.Position, EventID: h.EventID, Action: action, By: "ann"})
				x.awaitPublished()
				require.Empty(t, x.r.Halted())
				b.bad("k") // the decision was about one row
				require.NotEqual(t, h.Position, x.haltedAt().Position)
				b.db.Exec(t, "DELETE FROM outbox WHERE aggregate_type = 'ä'")
				b.insert(b.conn, "k", 4)
				x.awaitPublished()
				require.NoError(t, x.finish())
				require.Len(t, x.fake.sent(), want)
				if action == relay.DeadLetter {
					require.Equal(t, "letters", x.fake.sent()[1].topic)
				}
			})
		}
	}
}

// TestADecisionIsMetAgain: the letter is with Kafka, and the process ends before the row is marked. The next one is
// halted at the row again, and the same decision applies.
func TestADecisionIsMetAgain(t *testing.T) {
	b := newBed(t)
	b.db.Exec(t, "ALTER TABLE outbox DROP CONSTRAINT outbox_aggregate_type_check")
	x := b.start(func(c *Config) { c.DrainLimit = 10 * time.Millisecond })
	b.bad("k")
	h := x.haltedAt()
	x.fake.hold(true)
	decision := relay.Decision{Position: h.Position, EventID: h.EventID, Action: relay.DeadLetter}
	x.r.Decide(decision)
	x.await("the letter is with the producer", func() bool { return len(x.fake.sent()) == 1 })
	_ = x.finish()
	require.Equal(t, 1, b.unpublished())

	x = b.start()
	require.Equal(t, h.Position, x.haltedAt().Position)
	x.r.Decide(decision)
	x.awaitPublished()
	require.NoError(t, x.finish())
	require.Len(t, x.fake.sent(), 1)
}

// TestPauseAmidABatch: what is with Kafka is waited for and marked, nothing else is published until the pause is over,
// and then in order.
func TestPauseAmidABatch(t *testing.T) {
	b := newBed(t)
	b.fill(2100, 7)
	x := b.prepare(func(c *Config) { c.WindowRecords = 50 })
	x.fake.hold(true) // before the first record
	x.run()
	x.await("the window is full", func() bool { return len(x.fake.sent()) == 50 })
	x.r.Pause(&relay.Pause{By: "ann", Reason: "upgrade", Since: time.Now()})
	ready, why := x.r.Ready()
	require.False(t, ready)
	require.Equal(t, "paused by ann: upgrade", why)
	require.Equal(t, relay.Paused, x.r.Status().State.Name)
	x.fake.hold(false)
	x.await("what was sent is marked", func() bool {
		records, _ := x.r.window.InUse()
		return records == 0 && !x.r.window.Full() && b.unpublished() == 2100-len(x.fake.sent())
	})
	sent := len(x.fake.sent())
	require.Less(t, sent, 60, "a row of each worker may have waited for room")
	b.fillMore(70, 7)
	require.Never(t, func() bool { return len(x.fake.sent()) > sent }, 300*time.Millisecond, 20*time.Millisecond)
	x.r.Pause(&relay.Pause{By: "ann", Reason: "upgrade", Since: time.Now()}) // each time the table is read
	require.Zero(t, x.fake.refreshed.Load())
	x.r.Pause(nil)
	require.Equal(t, int32(1), x.fake.refreshed.Load(), "partitions may have been added during the pause")
	x.awaitPublished()
	x.await("ready", func() bool { ready, _ := x.r.Ready(); return ready })
	require.NoError(t, x.finish())
	require.Zero(t, ordered(t, x.fake.sent()))
	require.Equal(t, 1, x.logs.FilterMessageSnippet("paused by an operator").Len())
}

// TestNothingIsPublishedBeforeItIsKnownWhetherItIsPaused: the table of decisions cannot be read at the start.
func TestNothingIsPublishedBeforeItIsKnownWhetherItIsPaused(t *testing.T) {
	b := newBed(t)
	b.fill(10, 2)
	x := b.prepare()
	x.r.Pause(&relay.Pause{Unread: errors.New("permission denied"), Since: time.Now()})
	x.run()
	require.Never(t, func() bool { return len(x.fake.sent()) > 0 }, 200*time.Millisecond, 10*time.Millisecond)
	_, why := x.r.Ready()
	require.Contains(t, why, "permission denied")
	require.NotEqual(t, relay.Paused, x.r.Status().State.Name, "no operator has paused it")
	x.r.Known()
	x.awaitPublished()
	require.NoError(t, x.finish())
}

// TestAPausedRelayStops at once.
func TestAPausedRelayStops(t *testing.T) {
	b := newBed(t)
	x := b.start()
	x.r.Pause(&relay.Pause{By: "ann", Reason: "upgrade", Since: time.Now()})
	b.fill(10, 2)
	require.NoError(t, x.finish())
	require.Equal(t, relay.Stopped, x.r.Status().State.Name)
}
