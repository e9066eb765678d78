package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
)

// The hashes come from org.apache.kafka.common.utils.UtilsTest.testMurmur2.
func TestJavaPartition(t *testing.T) {
	for key, hash := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		for _, n := range []int32{1, 12, 1<<31 - 1} {
			require.Equal(t, (hash&0x7fffffff)%n, oracle.JavaPartition([]byte(key), n), key)
		}
	}
}

func TestHistogramLeavesTheWarmUpOut(t *testing.T) {
	now := time.Now()
	trips := trips{committed: make([]time.Time, 5), arrived: make([]time.Time, 5)}
	for n := 1; n < 5; n++ {
		trips.committed[n] = now
		trips.arrived[n] = now.Add(time.Duration(5-n) * time.Millisecond)
	}
	trips.arrived[4] = now.Add(-time.Millisecond)
	h, negative := trips.histogram(2)
	require.EqualValues(t, 2, h.TotalCount())
	require.Equal(t, 1, negative)
	require.InDelta(t, 2000, h.Max(), 2)
}

// No contender always comes after the same other.
func TestTheOrderTurnsAround(t *testing.T) {
	require.Equal(t, []int{0, 1, 2}, turns(3, 0))
	require.Equal(t, []int{2, 1, 0}, turns(3, 1))
	require.Equal(t, []int{0, 1, 2}, turns(3, 2))
}
