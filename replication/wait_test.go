package replication

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
)

// TestReceiveSaysThatItWaits: what the caller keeps for company has to go when nothing more arrives, and not before.
func TestReceiveSaysThatItWaits(t *testing.T) {
	w := newWalsender(t, visit{stream: append(commitAt(1), commitAt(2)...)})
	cfg := w.config(nothingConfirmed)
	var s *Stream
	var got []lsn.LSN
	waits := 0
	cfg.OnWait = func() {
		if len(got) == 0 {
			return // the first bytes
		}
		waits++
		require.Equal(t, []lsn.LSN{1, 2}, got, "it waits with a message at hand")
		s.Interrupt()
	}
	err := Run(t.Context(), cfg, func(_ context.Context, opened *Stream) error {
		s = opened
		for {
			m, err := s.Receive()
			if err != nil {
				require.ErrorIs(t, err, ErrInterrupted)
				return nil
			}
			got = append(got, m.Commit.EndLSN)
		}
	})
	require.NoError(t, err)
	require.Equal(t, 1, waits)
}
