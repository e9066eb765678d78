package polling

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBatchAsksForWhatFits: rows beyond the bytes of a batch are sent by the server and thrown away.
func TestBatchAsksForWhatFits(t *testing.T) {
	const bytes = 100_000
	b := newBatch()
	require.Equal(t, 800, b.fitting(800, bytes), "nothing is known")
	fill := func(rows, size int) *batch {
		b.reset()
		for range rows {
			b.add(batchRow{}, [][]byte{make([]byte, size)})
		}
		return b
	}
	require.Equal(t, 800, fill(10, 50).fitting(800, bytes), "small rows")
	require.Equal(t, 90, fill(100, 1000).fitting(800, bytes), "a batch that was cut")
	require.Equal(t, 90, fill(90, 1000).fitting(800, bytes), "the same rows again: not cut, and not more")
	require.Equal(t, 1, fill(1, 200_000).fitting(800, bytes), "a row that alone is too large")
	require.Equal(t, 800, fill(1, 10).fitting(800, bytes), "small rows after it")
}
