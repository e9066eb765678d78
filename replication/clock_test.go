package replication

import (
	"testing"
	"testing/synctest"
	"time"

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
