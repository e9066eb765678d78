package offsets

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBrokenNamesEachRule(t *testing.T) {
	seen := map[string]bool{}
	for b := BrokenNesting; b <= BrokenLimit; b++ {
		require.NotEqual(t, "unknown rule", b.String())
		require.NotEmpty(t, b.String())
		seen[b.String()] = true
	}
	require.Len(t, seen, int(BrokenLimit), "no two rules have the same text")
	require.Equal(t, "unknown rule", Broken(0).String())
	require.Equal(t, "unknown rule", (BrokenLimit + 1).String())
}

func TestStreamErrorNamesWhatItContradicts(t *testing.T) {
	require.EqualError(t, &StreamError{Broken: BrokenOrder, At: 0x10, Other: 0x20},
		"offsets: the stream goes backwards: 0/10 against 0/20")
	require.EqualError(t, &StreamError{Broken: BrokenRepeat, At: 0x10, Rows: 2, Before: 3},
		"offsets: a repeated transaction differs from its first delivery: transaction 0/10, 2 rows now, 3 rows before")
}
