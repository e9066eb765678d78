package lanes

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

func newTestQueue(l Limits) (*Queue[int], *[]uint64) {
	acked := &[]uint64{}
	return NewQueue[int](l, sink.Callbacks{Acked: func(d sink.Delivery) {
		*acked = append(*acked, d.Tickets...)
	}}), acked
}

func TestQueueWaitsForRoomAndDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, acked := newTestQueue(Limits{Lanes: 4, Batch: 1, Records: 2, Bytes: 100})
		ctx := t.Context()
		require.ErrorIs(t, q.Add(ctx, nil, Record[int]{}), errNotBegun)
		q.Begin()
		key := []byte("k")
		require.NoError(t, q.Add(ctx, key, Record[int]{Topic: "t", Ticket: 1, Size: 200, Message: 1}))
		added := make(chan error, 2)
		go func() { added <- q.Add(ctx, key, Record[int]{Topic: "t", Ticket: 2, Size: 1, Tag: "x", Message: 2}) }()
		synctest.Wait()
		require.Empty(t, added, "the first is larger than all may be together")

		b, messages, ok := q.Next(nil)
		require.True(t, ok)
		require.Equal(t, []int{1}, messages)
		q.Settle(b, 1)
		q.Settle(b, 1) // a second answer counts for nothing
		drained := make(chan error)
		go func() { drained <- q.Drain(ctx) }()
		q.Deliver()
		require.NoError(t, <-added)
		require.Equal(t, []uint64{1}, *acked)
		b, messages, ok = q.Next(nil)
		require.True(t, ok)
		require.Equal(t, []int{2}, messages)
		q.Settle(b, 0)
		_, _, ok = q.Next(nil)
		require.False(t, ok, "the lane pauses")
		require.False(t, q.Due().IsZero())
		require.Equal(t, sink.Dropped{Records: 1, Bytes: 1}, q.Abandon())
		require.NoError(t, <-drained)
		require.Equal(t, []uint64{1}, *acked)
	})
}

func TestQueueEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []error
		q := NewQueue[int](Limits{Lanes: 1, Batch: 1, Records: 1, Bytes: 1}, sink.Callbacks{
			Acked: func(sink.Delivery) {}, Ended: func(err error) { ended = append(ended, err) },
		})
		q.Begin()
		require.NoError(t, q.Add(t.Context(), nil, Record[int]{Size: 1}))
		waiting := make(chan error)
		go func() { waiting <- q.Add(t.Context(), nil, Record[int]{Size: 1}) }()
		synctest.Wait()
		require.True(t, q.End(sink.ErrSessionOver))
		require.False(t, q.End(sink.ErrSessionOver), "once until Abandon")
		require.ErrorIs(t, <-waiting, sink.ErrSessionOver)
		require.ErrorIs(t, q.Drain(t.Context()), sink.ErrSessionOver)
		require.Len(t, ended, 1)
		require.Equal(t, 1, q.Abandon().Records)
		require.NoError(t, q.Drain(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, q.Add(ctx, nil, Record[int]{}), context.Canceled)
		q.Stop(nil)
		require.ErrorIs(t, q.Usable(), sink.ErrStopped)
		q.Stop(errors.New("why"))
		require.EqualError(t, q.Usable(), "why")
	})
}

func BenchmarkQueue(b *testing.B) {
	q := NewQueue[int](Limits{Lanes: 4096, Batch: 1, Records: 1 << 20, Bytes: 1 << 40},
		sink.Callbacks{Acked: func(sink.Delivery) {}})
	q.Begin()
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = strconv.AppendInt(nil, int64(i), 10)
	}
	var messages []int
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r := Record[int]{Topic: "t", Ticket: uint64(i), Size: 1}
		if err := q.Add(b.Context(), keys[i%len(keys)], r); err != nil {
			b.Fatal(err)
		}
		batch, m, _ := q.Next(messages[:0])
		messages = m
		q.Settle(batch, 1)
		if i%64 == 0 {
			q.Deliver()
		}
	}
}
