package lsn

import (
	"encoding"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var _ encoding.TextAppender = Position{}

func TestPositionText(t *testing.T) {
	for text, p := range map[string]Position{
		"0000000000000000-00000000": {},
		"00000016b374d848-0000002a": {Commit: 0x16B374D848, Index: 42},
		"ffffffffffffffff-ffffffff": {Commit: math.MaxUint64, Index: math.MaxUint32},
	} {
		require.Equal(t, text, p.String())
		got, err := ParsePosition(text)
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
	for _, text := range []string{
		"", "-", "00000016b374d848", "00000016b374d848-0000002", "00000016b374d848-0000002a0",
		"00000016B374D848-0000002a", "00000016b374d848_0000002a", "00000016b374d84-80000002a",
		"0000001 b374d848-0000002a", "+0000016b374d848-0000002a",
	} {
		_, err := ParsePosition(text)
		require.ErrorContains(t, err, "is not a position", "%q", text)
	}
}

func TestPositionOrderIsTextOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var all []Position
	for range 300 {
		all = append(all, Position{
			Commit: LSN(r.Uint64() >> (r.Uint64() % 64)), Index: uint32(r.Uint64()) >> (r.Uint64() % 32),
		})
	}
	all = append(all, all[:20]...)
	slices.SortFunc(all, Position.Compare)
	for i := 1; i < len(all); i++ {
		require.Equal(t, all[i-1].Compare(all[i]), strings.Compare(all[i-1].String(), all[i].String()))
	}
}

func TestAppendTextAppends(t *testing.T) {
	b := append(make([]byte, 0, 64), "at "...)
	b, err := Position{Commit: 1, Index: 2}.AppendText(b)
	require.NoError(t, err)
	require.Equal(t, "at 0000000000000001-00000002", string(b))
	require.Zero(t, testing.AllocsPerRun(100, func() { b, _ = Position{Commit: 1, Index: 2}.AppendText(b[:0]) }))
}

func FuzzParsePosition(f *testing.F) {
	for _, s := range []string{
		"00000016b374d848-0000002a", "00000016B374D848-0000002a", "-", "ffffffffffffffff-ffffffff",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := ParsePosition(s); err == nil {
			require.Equal(t, s, p.String())
		}
	})
}
