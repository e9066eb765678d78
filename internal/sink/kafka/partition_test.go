package kafka

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// queue seals n batches of one record.
func queue(part *partition, n int) {
	for range n {
		part.open = newBatch(part)
		part.pending += wire.HeaderSize + part.open.append(&router.Record{}, 0, math.MaxInt)
		part.seal()
	}
}

func led(t *testing.T, batches int) *partition {
	t.Helper()
	part := &partition{topic: &topic{name: "t"}, broker: &broker{}}
	queue(part, batches)
	return part
}

func takeAll(part *partition) (out []*batch) {
	for part.sendable() {
		out = append(out, part.take(identity{1, 0}))
	}
	return out
}

func verdictNamed(name string) wire.Verdict {
	for _, v := range wire.Verdicts {
		if v.Name == name {
			return v
		}
	}
	panic(name)
}

func sequences(batches []*batch) (out []int32) {
	for _, b := range batches {
		out = append(out, b.sequence)
	}
	return out
}

func TestFirstBatchFliesAlone(t *testing.T) {
	part := led(t, 8)
	first := takeAll(part)
	require.Len(t, first, 1)
	require.True(t, part.answered(first[0], wire.VerdictOf(0)))
	require.Len(t, takeAll(part), 5, "then as many as the broker remembers")
	require.Equal(t, []int32{1, 2, 3, 4, 5}, sequences(part.inflight))
}

func TestDuplicateSequenceIsSuccess(t *testing.T) {
	part := led(t, 1)
	b := takeAll(part)[0]
	require.True(t, part.answered(b, wire.VerdictOf(46)))
	require.False(t, part.drained())
	require.Empty(t, part.inflight)
}

// TestRewind: an error on the n-th of five in flight; what follows it is echo, whatever it says, and all of it is
// sent again, in order, with its sequence, the first alone.
func TestRewind(t *testing.T) {
	outOfOrder, ok := verdictNamed("OUT_OF_ORDER_SEQUENCE_NUMBER"), wire.VerdictOf(0)
	for _, failed := range []string{
		"NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT", "MESSAGE_TOO_LARGE",
		"OUT_OF_ORDER_SEQUENCE_NUMBER",
	} {
		for n := range 5 {
			for _, echo := range []wire.Verdict{outOfOrder, ok, verdictNamed("MESSAGE_TOO_LARGE"), connectionLost} {
				part := led(t, 9)
				part.answered(takeAll(part)[0], ok)
				flying := takeAll(part)
				for i, b := range flying {
					require.False(t, part.drained(), "not before everything is answered")
					switch {
					case i < n:
						require.True(t, part.answered(b, ok))
					case i == n:
						require.False(t, part.answered(b, verdictNamed(failed)))
					default:
						require.False(t, part.answered(b, echo), "nothing completes after a failed batch")
					}
					require.Equal(t, i >= n, part.state == draining)
					require.Equal(t, i < n, part.sendable(), "nothing is sent while draining")
				}
				require.True(t, part.drained())
				require.Equal(t, failed, part.rewind().Name)
				require.Equal(t, probing, part.state)
				require.Equal(t, []int32{1, 2, 3, 4, 5}[n:], sequences(part.queued[:5-n]))

				again := takeAll(part)
				require.Equal(t, flying[n:n+1], again)
				require.True(t, part.answered(again[0], ok))
				rest := takeAll(part)
				require.Equal(t, flying[n+1:], rest[:len(flying)-n-1])
				require.Equal(t, int32(6), rest[len(flying)-n-1].sequence, "new data follows")
			}
		}
	}
}

func TestLeaderMoves(t *testing.T) {
	ok := wire.VerdictOf(0)
	part := led(t, 6)
	part.answered(takeAll(part)[0], ok)
	flying := takeAll(part)
	part.drain(leaderMoved)
	require.False(t, part.sendable())
	require.True(t, part.answered(flying[0], ok), "answers of the old leader count")
	part.answered(flying[1], verdictNamed("NOT_LEADER_OR_FOLLOWER"))
	for _, b := range flying[2:] {
		part.answered(b, verdictNamed("NOT_LEADER_OR_FOLLOWER"))
	}
	require.True(t, part.drained())
	require.Equal(t, leaderMoved, part.rewind(), "the new leader is known already")
	require.Len(t, part.queued, 4)
}

func TestRestart(t *testing.T) {
	part := led(t, 4)
	part.answered(takeAll(part)[0], wire.VerdictOf(0))
	for _, b := range takeAll(part) {
		part.answered(b, verdictNamed("UNKNOWN_PRODUCER_ID"))
	}
	part.rewind()
	part.restart()
	next := part.take(identity{1, 1})
	require.Equal(t, identity{1, 1}, next.identity)
	require.Zero(t, next.sequence)
	require.False(t, part.sendable(), "a new epoch is probed")
	part.answered(next, wire.VerdictOf(0))
	require.Equal(t, int32(1), part.take(identity{1, 1}).sequence)
}

func TestPendingBytes(t *testing.T) {
	part := led(t, 3)
	total := part.pending
	for _, b := range takeAll(part) {
		part.answered(b, verdictNamed("NOT_ENOUGH_REPLICAS"))
	}
	part.rewind()
	require.Equal(t, total, part.pending)
	for range 3 {
		b := takeAll(part)
		part.answered(b[0], wire.VerdictOf(0))
		if len(b) > 1 {
			part.answered(b[1], wire.VerdictOf(0))
			break
		}
	}
	require.Zero(t, part.pending)
}
