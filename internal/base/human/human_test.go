package human

import (
	_ "embed"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

//go:embed testdata/spelling.json
var spelling []byte

// TestSpelling: the list is also what the page's format.js is held to, in a browser.
//
// Bug (monitor): Sizes, durations and counts had three spellings ("82.01MiB", "-1.39e+07B", "About an hour"), and
// others on the page. Cost: figures of one fact that look different. Also: `TestSpellingOfThePage` in
// `internal/watch/page`.
func TestSpelling(t *testing.T) {
	var list map[string][][2]any
	require.NoError(t, json.Unmarshal(spelling, &list))
	for name, write := range map[string]func(float64) string{
		"bytes": Bytes[float64], "seconds": Seconds,
		"span": func(s float64) string { return Duration(time.Duration(s * float64(time.Second))) },
		"time": func(ms float64) string { return Time(time.UnixMilli(int64(ms))) },
	} {
		require.NotEmpty(t, list[name])
		for _, example := range list[name] {
			require.Equal(t, example[1], write(example[0].(float64)), "%s of %v", name, example[0])
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		require.Equal(t, want, Count(n))
	}
	require.Equal(t, "1 row", Counted(1, "row", "rows"))
	require.Equal(t, "1,500 rows", Counted(int64(1500), "row", "rows"))
}

func TestTime(t *testing.T) {
	at := time.Date(2026, 1, 2, 4, 5, 6, 7, time.FixedZone("", 3600))
	require.Equal(t, "2026-01-02T03:05:06Z", Time(at))
	require.Equal(t, "2026-01-02T03:05:06.000Z", Stamp(at))
}
