package replication

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// within is a stream that is ended after n messages of the transaction that committed at 200.
func within(n int) []byte {
	body := append([]byte{'B'}, binary.BigEndian.AppendUint64(nil, 200)...)
	out := xlogData(150, append(body, make([]byte, 12)...)...)
	for range n {
		out = append(out, xlogData(150, append([]byte{'O'}, make([]byte, 9)...)...)...)
	}
	return append(out, errorResponse("25P04", "terminating connection due to transaction timeout")...)
}

// TestAStreamThatBreaksWithinOneTransactionIsNoProgress: every stream is opened and receives, and none brings what an
// earlier one had not brought.
//
// Bug (stream): Each stream that broke within the same transaction reset the back-off. Cost: a full re-read of the
// transaction every 100 ms.
func TestAStreamThatBreaksWithinOneTransactionIsNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newVirtualWalsender(t, visit{stream: within(2)}, visit{stream: within(2)}, visit{stream: within(1)},
			visit{stream: within(2)}, visit{stream: within(3)}, visit{stream: within(3)})
		ctx, cancel := context.WithCancel(t.Context())
		cfg := w.config(nothingConfirmed)
		var barren []int
		var waits []time.Duration
		cfg.OnState = func(s State) {
			switch s.Phase {
			case Streaming:
				if barren = append(barren, s.Barren); len(barren) == 6 {
					cancel()
				}
				if len(barren) > 1 {
					_, remedy := fault.Split(s.Err)
					require.Equal(t, []string{`ALTER ROLE "u" SET transaction_timeout = '0';`}, remedy.Commands)
				}
			case Waiting:
				waits = append(waits, s.RetryIn)
			}
		}
		require.NoError(t, Run(ctx, cfg, drain))
		require.Equal(t, []int{0, 0, 1, 2, 3, 0}, barren, "one message more than before is news")
		require.Greater(t, waits[3], 2*waits[0]-1, "the fourth wait is at least 400 ms, the first at most 150 ms")
		require.Less(t, waits[4], 400*time.Millisecond, "after progress waiting starts small again")
	})
}
