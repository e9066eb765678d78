package walsender_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The tests of this file are for the race detector: a session uses the server's state, and an operator changes it later
// without having heard from that session.

func TestARefusalReadsTheHolderUnderTheLock(t *testing.T) {
	standInOf(t, 17, func(t *testing.T, s *standIn) {
		first := stream(t, s, 0)
		defer first.close()
		second := connect(t, s, replication)
		defer second.close()
		go func() {
			time.Sleep(time.Second) //waits:ok in a bubble
			s.stop(true)
		}()
		require.Equal(t, "55006", second.start(0))
		code, _ := first.over()
		require.Equal(t, "closed", code)
	})
}

func TestATransactionReadsItsLimitUnderTheLock(t *testing.T) {
	standInOf(t, 17, func(t *testing.T, s *standIn) {
		ids := make([]string, 60) // a millisecond each; after many more the detector has forgotten the read
		c := stream(t, s, 0)
		defer c.close()
		go func() {
			time.Sleep(30 * time.Millisecond) //waits:ok in a bubble
			s.limitTransactions(time.Second)
		}()
		s.commit(ids...)
		require.Len(t, c.next().ids, len(ids))
	})
}
