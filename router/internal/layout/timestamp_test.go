package layout

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseTimestamp(t *testing.T) {
	tests := []struct {
		text string
		ms   int64
		how  Parsed
	}{
		{"1970-01-01 00:00:00", 0, parsedOK},
		{"1970-01-01 00:00:00.000999+00", 0, parsedOK},
		{"2026-11-21 08:17:00.123456+00", 1795249020123, parsedOK},
		{"2026-11-21 08:17:00.999999+00", 1795249020999, parsedOK},
		{"2026-11-21 08:17:00.1", 1795249020100, parsedOK},
		{"2026-11-21 10:17:00+02", 1795249020000, parsedOK},
		{"2026-11-21 13:47:00+05:30", 1795249020000, parsedOK},
		{"2026-11-21 04:46:30-03:30:30", 1795249020000, parsedOK},
		{"2024-02-29 23:59:59", 1709251199000, parsedOK},
		{
			"294276-12-31 23:59:59.999999+00", time.Date(294276, 12, 31, 23, 59, 59, 999e6, time.UTC).UnixMilli(),
			parsedOK,
		},
		{"1969-12-31 23:59:59.999+00", 0, parsedNoTime},
		{"1970-01-01 00:00:00+01", 0, parsedNoTime},
		{"0044-03-15 12:00:00+00 BC", 0, parsedNoTime},
		{"0001-02-29 12:00:00 BC", 0, parsedNoTime},
		{"infinity", 0, parsedNoTime},
		{"-infinity", 0, parsedNoTime},
		{"", 0, parsedInvalid},
		{"2026-11-21", 0, parsedInvalid},
		{"2026-11-21T08:17:00Z", 0, parsedInvalid},
		{"21/11/2026 08:17:00", 0, parsedInvalid},
		{"2026-02-29 08:17:00", 0, parsedInvalid},
		{"0004-02-29 12:00:00 BC", 0, parsedInvalid},
		{"2026-13-01 08:17:00", 0, parsedInvalid},
		{"2026-00-01 08:17:00", 0, parsedInvalid},
		{"0000-01-01 08:17:00", 0, parsedInvalid},
		{"2026-01-01 24:00:00", 0, parsedInvalid},
		{"2026-01-01 00:60:00", 0, parsedInvalid},
		{"2026-01-01 00:00:60", 0, parsedInvalid},
		{"2026-01-01 00:00:00.", 0, parsedInvalid},
		{"2026-01-01 00:00:00.1234567", 0, parsedInvalid},
		{"2026-01-01 00:00:00+24", 0, parsedInvalid},
		{"2026-01-01 00:00:00+1", 0, parsedInvalid},
		{"2026-01-01 00:00:00+01:60", 0, parsedInvalid},
		{"2026-01-01 00:00:00+00x", 0, parsedInvalid},
		{"2026-01-01 00:00:00 AD", 0, parsedInvalid},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			ms, how := ParseTimestamp([]byte(test.text))
			require.Equal(t, test.how, how)
			require.Equal(t, test.ms, ms)
		})
	}
}

const postgresLayout = "2006-01-02 15:04:05.999999-07:00:00"

// Days are counted by hand, so each day of eight centuries is compared with package time.
func TestParseTimestampEveryDay(t *testing.T) {
	at := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	for ; at.Year() < 2800; at = at.AddDate(0, 0, 1) {
		at := at.Add(rand.N(24 * time.Hour)).Truncate(time.Microsecond)
		// By hand: 300,000 days of assertions by reflection take seconds.
		if ms, how := ParseTimestamp([]byte(at.Format(postgresLayout))); how != parsedOK || ms != at.UnixMilli() {
			t.Fatalf("%s: %d, %d", at, how, ms)
		}
	}
}

func FuzzTimestamp(f *testing.F) {
	for _, seed := range []string{
		"2026-11-21 08:17:00.123456+00:00:00", "1999-12-31 23:59:59-11:30:00", "infinity", "2024-02-29 00:00:00 BC",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ms, how := ParseTimestamp([]byte(text))
		if want, err := time.Parse(postgresLayout, text); err == nil && want.Year() > 0 &&
			want.Format(postgresLayout) == text {
			if want.UnixMilli() < 0 {
				require.Equal(t, parsedNoTime, how)
				return
			}
			require.Equal(t, parsedOK, how)
			require.Equal(t, want.UnixMilli(), ms)
			return
		}
		if how == parsedOK {
			require.GreaterOrEqual(t, ms, int64(0))
		}
	})
}

// The short path for the usual form never differs from the other, whichever byte of it is another.
func TestParseUsual(t *testing.T) {
	const text = "2024-02-29 23:59:58.987654+00"
	ms, ok := parseUsual([]byte(text))
	require.True(t, ok)
	require.Equal(t, time.Date(2024, 2, 29, 23, 59, 58, 987_000_000, time.UTC).UnixMilli(), ms)
	taken := 0
	for i := range text {
		for c := range 256 {
			s := []byte(text)
			s[i] = byte(c)
			ms, ok := parseUsual(s)
			if !ok {
				continue
			}
			taken++
			want, how := parseAny(s)
			require.Equal(t, parsedOK, how, "%q", s)
			require.Equal(t, want, ms, "%q", s)
		}
	}
	require.Greater(t, taken, len(text))
	for _, s := range []string{"", text[1:], text + "0", "2023-02-29 23:59:58.987654+00"} {
		_, ok := parseUsual([]byte(s))
		require.False(t, ok, s)
	}
}

func BenchmarkParseTimestamp(b *testing.B) {
	s := []byte("2026-11-21 08:17:00.123456+00")
	b.Run("usual", func(b *testing.B) {
		for b.Loop() {
			parseUsual(s)
		}
	})
	b.Run("any", func(b *testing.B) {
		for b.Loop() {
			parseAny(s)
		}
	})
}
