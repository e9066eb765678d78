package polling

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

func TestLanes(t *testing.T) {
	var l lanes
	require.Len(t, l.free(0), Lanes)
	require.Equal(t, []int{62, 63, 0}, l.free(62)[:3], "all lanes get their turn")
	require.Equal(t, []int{1, 2}, l.take([]int{1, 2}))
	require.Equal(t, []int{3}, l.take([]int{2, 3}),
		"a lane of this process is not free, whatever the database says")
	require.NotContains(t, l.free(0), 2)
	l.give([]int{2})
	require.Contains(t, l.free(0), 2)
	l.rest(2)
	require.NotContains(t, l.free(0), 2)
	l.wake(2)
	require.Contains(t, l.free(0), 2)
}

// laneVectors are what relays of all versions have to agree on. Postgres computed them, not this package:
//
//	SELECT get_byte(sha256(convert_to('order-4711', 'UTF8')), 0) & 63
var laneVectors = map[string]int{"": 35, "1": 43, "42": 51, "order-4711": 23, `a\b`: 6}

func TestLaneOfIsStable(t *testing.T) {
	for key, lane := range laneVectors {
		require.Equal(t, lane, laneOf([]byte(key)), key)
	}
	require.Equal(t, 64, Lanes)
	require.NotEqual(t, lockClass(identifier.Table{Schema: "public", Name: "outbox"}),
		lockClass(identifier.Table{Schema: "shop", Name: "outbox"}))
}

func TestBatchMarksAcknowledgedRows(t *testing.T) {
	b := newBatch()
	for i := range 6 {
		b.add(batchRow{lane: i / 3, seq: int64(i)}, [][]byte{[]byte("a"), nil, []byte("ccc")})
	}
	require.Equal(t, pgoutput.Tuple{
		{Kind: pgoutput.Text, Data: []byte("a")},
		{Kind: pgoutput.Null},
		{Kind: pgoutput.Text, Data: []byte("ccc")},
	}, b.tuple(4))
	for i := range 4 {
		b.fly(i)
	}
	b.ack(0)
	b.ack(2)
	require.Equal(t, []int{0, 2}, b.marks(), "in any order: Kafka has them")
	require.Equal(t, []int{0, 1}, b.open())
	b.markedAll(b.marks())
	require.Empty(t, b.marks())
	b.leaveLanes([]int{0}) // lane 1 is another worker's
	require.Equal(t, []int{0, 1}, b.open(), "row 3 of lane 1 is still with the producer")
	b.ack(3)
	require.Equal(t, []int{1}, b.unmarked())
	b.ack(1)
	require.Empty(t, b.open())
	require.Equal(t, []int{1, 3}, b.marks())
	require.Zero(t, b.inFlight())
	b.ack(1) // never twice
	require.Zero(t, b.inFlight())
}

func TestBatchLeavesTheRestOfALane(t *testing.T) {
	b := newBatch()
	for i := range 6 {
		b.add(batchRow{lane: i / 3, seq: int64(i)}, nil)
	}
	b.leave(1)
	require.Equal(t, []rowState{waiting, left, left, waiting, waiting, waiting},
		[]rowState{b.state(0), b.state(1), b.state(2), b.state(3), b.state(4), b.state(5)})
}
