package replication

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cdc-outbox/cdc-outbox/pgoutput"

	"github.com/stretchr/testify/require"
)

// TestServersClock is known from keepalives, of which the least delayed counts.
func TestServersClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(24 * time.Hour) // 2000 begins with the bubble
		s := &Stream{}
		s.ahead.Store(noClock)
		sent := func(at time.Time) { s.sawClock(at.UnixMicro() - postgresEpoch) }
		s.sawClock(0)
		require.Equal(t, time.Now(), s.ServerNow(), "not known yet")
		const slow = -3 * time.Minute
		sent(time.Now().Add(slow - time.Hour)) // it waited in the line, since reading paused
		require.Equal(t, slow-time.Hour, time.Until(s.ServerNow()))
		sent(time.Now().Add(slow))
		sent(time.Now().Add(slow - time.Minute))
		require.Equal(t, slow, time.Until(s.ServerNow()))
		sent(time.Now().Add(time.Hour)) // it was set
		require.Equal(t, time.Hour, time.Until(s.ServerNow()))
	})
}

// TestLateTransactions: a transaction that was committed a while before it arrives, by the server's clock, is late,
// until the server says that there is no more.
func TestLateTransactions(t *testing.T) {
	var told []bool
	s := &Stream{readAt: time.Now(), onLate: func(late bool) { told = append(told, late) }}
	s.ahead.Store(noClock)
	arrives := func(age time.Duration) {
		s.message.Kind = pgoutput.KindBegin
		s.message.Begin.CommitTime = s.readAt.Add(-age)
		s.sawRow()
	}
	arrives(10 * time.Millisecond)
	require.Empty(t, told)
	arrives(time.Second)
	arrives(2 * time.Second)
	require.Equal(t, []bool{true}, told)
	arrives(0)
	require.Equal(t, []bool{true, false}, told)

	arrives(time.Minute)
	keepalive := make([]byte, 18)
	keepalive[0] = 'k'
	_, err := s.copyData(keepalive)
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, true, false}, told)

	s.ahead.Store(int64(-time.Minute)) // the server's clock is behind
	arrives(time.Minute)
	require.Len(t, told, 4)
	arrives(2 * time.Minute)
	require.Len(t, told, 5)
}
