package connector

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Periods of waits, and the lead after each. The window is 32 MiB.
func TestLeadFollowsTheWaits(t *testing.T) {
	const least, most = 2 << 20, 8 << 20
	type period struct {
		waited, length time.Duration
		want           int64
	}
	const s, ms = time.Second, time.Millisecond
	for name, periods := range map[string][]period{
		"Kafka keeps up":                    {{100 * ms, 2 * s, least}, {50 * ms, s, least}},
		"a slow start":                      {{1700 * ms, 2 * s, least}, {50 * ms, s, least}},
		"a broker that pauses":              {{0, 2 * s, least}, {240 * ms, s, least}},
		"a slow broker":                     {{0, 2 * s, least}, {300 * ms, s, 4 << 20}, {300 * ms, s, most}},
		"no more than that":                 {{0, 2 * s, least}, {950 * ms, s, most}, {950 * ms, s, most}},
		"a broker far away, from the start": {{1900 * ms, 2 * s, most}},
		"in the middle nothing changes":     {{1900 * ms, 2 * s, most}, {200 * ms, s, most}},
		"back by halves":                    {{1900 * ms, 2 * s, most}, {90 * ms, s, 4 << 20}, {0, s, least}},
		"by one half after a quiet time":    {{1900 * ms, 2 * s, most}, {90 * ms, time.Hour, 4 << 20}},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := newLead(32<<20, false), time.Unix(1e9, 0)
			l.wait(now, now)
			for i, p := range periods {
				// A short wait ends the period, as nothing else does.
				end := now.Add(p.length)
				l.wait(now, now.Add(p.waited/2))
				l.wait(end.Add(-p.waited+p.waited/2), end)
				now = end
				require.Equal(t, p.want, l.bytes, "period %d", i)
			}
		})
	}
}

// A lead of nothing would never read anything.
func TestLeadOfTheSmallestWindow(t *testing.T) {
	for _, transactions := range []bool{false, true} {
		l := newLead(1, transactions)
		require.Equal(t, []int64{1, 1, 1}, []int64{l.least, l.bytes, l.most})
	}
}

// Thousands of partitions have a larger lead from the start.
func TestLeadForManyPartitions(t *testing.T) {
	l := newLead(32<<20, false)
	for partitions, want := range map[int64]int64{
		0: 2 << 20, 36: 2 << 20, 1024: 2 << 20, 3600: 3600 << 11, 12_000: 12_000 << 11, 50_000: 24 << 20,
	} {
		require.Equal(t, want, l.bound(partitions), "%d partitions", partitions)
	}
	l.bytes = l.most
	require.Equal(t, l.most, l.bound(36))

	l = newLead(32<<20, true)
	require.Equal(t, l.most, l.bound(12_000), "a transaction of Postgres needs the rest")
}
