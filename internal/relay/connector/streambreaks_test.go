package connector

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// broken is a stream that is opened after barren others broke; the server's log ends at walEnd.
func broken(barren int, walEnd uint64) replication.State {
	s := replication.State{Phase: replication.Streaming, Barren: barren, Identity: at(50)}
	s.Identity.WALEnd = walAt(walEnd)
	s.Err = (&fault.Error{Kind: fault.Retry, Object: `slot "s"`, Err: errors.New("transaction timeout")}).
		With(fault.Do("Set it.", "ALTER ROLE r SET transaction_timeout = 0;"))
	return s
}

// TestNotReadyWhileStreamsBreakBeforeAnythingNew: the relay is connected most of the time, hears from Postgres, and has
// nothing that Kafka has not acknowledged.
//
// Bug (stream): `/readyz` was green while one stream after the other broke within the same transaction. Cost: an outage
// that no alert reported.
func TestNotReadyWhileStreamsBreakBeforeAnythingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, Config{}, true, opening{at(50), newStream(begin(100), row("a"), commit(150))})
		synctest.Wait()
		g.streamState(broken(1, 0x200))
		ready, why := g.Ready()
		require.True(t, ready, why)

		since := time.Now()
		g.streamState(broken(2, 0x200))
		time.Sleep(time.Second)
		g.streamState(broken(3, 0x200))
		ready, why = g.Ready()
		require.False(t, ready)
		require.Equal(t, `3 streams in a row broke before anything new came: slot "s": transaction timeout`, why)
		require.Equal(t, []fault.Wait{{
			Kind: WaitStream, Object: `slot ""`, Reason: why, Next: "Set it.",
			Commands: []string{"ALTER ROLE r SET transaction_timeout = 0;"}, Since: since,
		}}, g.Status().Waits)

		g.streamState(broken(4, 0x150))
		ready, why = g.Ready()
		require.True(t, ready, "everything that the log held is received: %s", why)
		g.streamState(broken(4, 0x200))
		g.tracker.Load().Observe(walAt(0x300))
		ready, why = g.Ready()
		require.True(t, ready, "the confirmed position moved: %s", why)
		g.stop()
		require.NoError(t, <-g.done)
	})
}

func TestMarkCountsNewRowsOnly(t *testing.T) {
	c := &Connector{}
	tracker := offsets.NewTracker(50)
	c.tracker.Store(tracker)
	add := func() (fresh bool) {
		_, ticket, fresh, err := tracker.Add()
		require.NoError(t, err)
		if fresh {
			require.NoError(t, tracker.Ack([]offsets.Ticket{ticket}, nil))
		}
		return fresh
	}
	require.NoError(t, tracker.Begin(100, time.Now()))
	before := c.mark()
	require.True(t, add())
	require.NotEqual(t, before, c.mark())

	before = c.mark()
	tracker.Resume()
	require.NoError(t, tracker.Begin(100, time.Now()))
	require.False(t, add())
	require.Equal(t, before, c.mark(), "a repeated row is not progress")
	require.True(t, add())
	require.NotEqual(t, before, c.mark())
}
