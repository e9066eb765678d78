package connector

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/standbys"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// shut is a gate through which nothing passes.
func shut() *standbys.Gate {
	return standbys.New(standbys.Config{
		Demand: standbys.Demand{Names: []string{"a"}}, DSN: func() (string, error) { return "", errors.New("no DSN") },
	})
}

// Nothing of a transaction is handed out before the standbys have it, the wait is a trouble like others, and a stop
// leaves the transaction to the next start.
func TestATransactionWaitsForStandbys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(justCommitted(0x100), row("1"), commit(0x110))
		r := start(t, Config{Standbys: shut()}, true, opening{replication.Identity{ConfirmedFlush: 0x90}, s})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.Empty(t, r.producer.produced())
		ready, why := r.Ready()
		require.False(t, ready)
		require.Contains(t, why, "nothing was published for 30 s: the server does not say how far the standbys are")
		st := r.Status()
		require.Len(t, st.Waits, 1)
		require.Equal(t, standbys.Wait, st.Waits[0].Kind)
		require.InDelta(t, 30, st.OldestUnconfirmedSeconds, 1, "events_unconfirmed fires by it")
		require.Nil(t, st.Open)
		r.stop()
		require.NoError(t, <-r.done)
		require.Equal(t, "0/90", r.Status().ConfirmedLSN)
	})
}

// Rows that are in the table may be missing on a standby, too.
func TestTheSnapshotWaitsForStandbys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := newList(3)
		r := start(t, Config{Standbys: shut(), Snapshot: list.open}, true,
			opening{replication.Identity{ConfirmedFlush: 0x90}, newStream()})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, r.producer.produced())
		require.Len(t, r.Status().Waits, 1)
		r.stop()
		require.NoError(t, <-r.done)
		require.Equal(t, int64(3), list.Left())
	})
}

// Another instance that has taken over ends the wait, too: what waits is no longer ours to publish.
func TestAFencedInstanceStopsWaitingForStandbys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newStream(begin(0x100), row("1"), commit(0x110)), newStream()
		r := start(t, Config{Standbys: shut()}, true, opening{replication.Identity{ConfirmedFlush: 0x90}, first},
			opening{replication.Identity{ConfirmedFlush: 0x90}, second})
		time.Sleep(time.Second)
		r.onSessionEnd(sink.ErrFenced)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, stream(second), r.currentStream())
		require.Len(t, r.producer.claims, 2, "it begins again")
		require.Empty(t, r.producer.produced())
		r.stop()
		require.NoError(t, <-r.done)
	})
}

// A stream that breaks meanwhile is noticed, and brings the transaction again.
func TestAStreamThatBreaksEndsTheWaitForStandbys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newStream(begin(0x100), row("1"), commit(0x110)), newStream()
		r := start(t, Config{Standbys: shut()}, true, opening{replication.Identity{ConfirmedFlush: 0x90}, first},
			opening{replication.Identity{ConfirmedFlush: 0x90}, second})
		time.Sleep(time.Second)
		close(first.broken)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, stream(second), r.currentStream())
		require.Empty(t, r.Status().Waits)
		require.Empty(t, r.producer.produced())
		r.stop()
		require.NoError(t, <-r.done)
	})
}
