package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLogEnds also runs beside every test of the producer, whose rig fails where records are lost.
func TestLogEnds(t *testing.T) {
	var l LogEnds
	batch := func(topic string, partition int32, offset int64, records int32, lost bool) {
		t.Helper()
		_, is := l.appended("A", topic, partition, offset, records)
		require.Equal(t, lost, is)
	}

	batch("t", 2, 7, 3, false)
	batch("t", 2, 10, 1, false) // right after it
	batch("t", 2, -1, 5, false) // a repeat
	batch("t", 2, 30, 2, false) // others write, too
	batch("t", 0, 0, 1, false)
	ends, lost := l.Account("A")
	require.Equal(t, map[string][]int64{"t": {1, 0, 32}}, ends)
	require.Empty(t, lost)
	ends["t"][2] = 99 // a copy

	batch("t", 2, 31, 1, true)
	batch("t", 2, 20, 4, true)
	batch("t", 0, 0, 5, true)
	ends, lost = l.Account("A")
	require.Equal(t, map[string][]int64{"t": {5, 0, 24}}, ends)
	require.Equal(t, []LostRecords{{"t", 2, 20, 32}, {"t", 0, 0, 1}}, lost)
	l.Settled(lost[:1])
	_, lost = l.Account("A")
	require.Equal(t, []LostRecords{{"t", 0, 0, 1}}, lost)
	l.Settled(lost)

	l.Expect("A", map[string][]int64{"u": {4, 4}})
	_, is := l.appended("", "u", 1, 3, 1)
	require.True(t, is, "of the cluster that was expected, as far as is known")
	l.Expect("A", map[string][]int64{"u": {4, 4}})
	_, is = l.appended("B", "u", 1, 3, 1)
	require.False(t, is, "another cluster's topic is another one")
	ends, _ = l.Account("B")
	require.Equal(t, map[string][]int64{"u": {0, 4}}, ends)
	l.Expect("", map[string][]int64{"u": {9}})
	_, is = l.appended("B", "u", 0, 3, 1)
	require.True(t, is, "the cluster was not known")

	l = LogEnds{}
	batch("t", 0, 0, 10, false)
	batch("t", 1, 0, 10, false)
	before, _ := l.Account("A")
	batch("t", 1, 10, 10, false) // while the brokers are asked
	listed := map[string][]int64{"t": {-1, 5, 7}, "u": {3}}
	require.Empty(t, l.Listed("A", before, listed), "not known, has moved, never written to")
	listed["t"][0] = 10
	require.Empty(t, l.Listed("A", before, listed))
	listed["t"][0] = 4
	require.Equal(t, []LostRecords{{"t", 0, 4, 10}}, l.Listed("A", before, listed))
	require.Empty(t, l.Listed("A", before, listed), "once")
	ends, lost = l.Account("A")
	require.Equal(t, []LostRecords{{"t", 0, 4, 10}}, lost)
	require.Equal(t, []int64{4, 20}, ends["t"])
	require.Empty(t, l.Listed("B", before, listed))
}
