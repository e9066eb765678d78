package lsn

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]LSN{
		"0/0": 0, "16/B374D848": 0x16B374D848, "16/b374d848": 0x16B374D848, "FFFFFFFF/FFFFFFFF": math.MaxUint64,
		"1/0": 1 << 32, "0/00000001": 1,
	} {
		got, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", "/", "1", "1/", "/1", "1/2/3", " 1/2", "1/2 ", "1/2\n", "+1/2", "1/-2", "1/0x2", "1_0/1", "1/1_0",
		"000000001/0", "0/100000000", "g/0", "0/g",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, "is not an LSN", "%q", text)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF", "1/2/3", "+1/2", "1_0/0", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
	})
}
