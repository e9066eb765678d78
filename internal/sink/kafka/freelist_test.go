package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// A list keeps what is in use from one trim to the next, and what came back last; the rest it drops, half at a time.
func TestFreeList(t *testing.T) {
	var l freeList[int]
	_, ok := l.take()
	require.False(t, ok)
	for i := range 10 {
		l.put(i)
	}
	l.trim()
	require.Len(t, l.items, 10, "the fewest were none")
	for range 3 {
		for want := 9; want >= 4; want-- {
			got, ok := l.take()
			require.True(t, ok)
			require.Equal(t, want, got, "what came back last")
		}
		for i := 4; i < 10; i++ {
			l.put(i)
		}
	}
	l.trim()
	require.Equal(t, []int{2, 3, 4, 5, 6, 7, 8, 9}, l.items, "four were not needed")
	l.trim()
	require.Equal(t, []int{6, 7, 8, 9}, l.items)
	for range 3 {
		l.trim()
	}
	require.Empty(t, l.items, "an idle list")
	l.put(1)
	l.empty()
	_, ok = l.take()
	require.False(t, ok)
}

// Several producers of a process trim as often as one.
func TestTrimsOnceASecond(t *testing.T) {
	trimmed.Lock()
	before := trimmed.at
	trimmed.Unlock()
	now := time.Now().Add(time.Hour)
	defer func() {
		trimmed.Lock()
		trimmed.at = before
		trimmed.Unlock()
	}()
	trimFree(now)
	trimFree(now.Add(time.Second - 1))
	require.Equal(t, now, trimmed.at)
	trimFree(now.Add(time.Second))
	require.Equal(t, now.Add(time.Second), trimmed.at)
	trimFree(now)
	require.Equal(t, now, trimmed.at, "the clock was set back")
}

// One busy partition among many: its large slices do not spread over the others.
func TestSlicesDoNotSpread(t *testing.T) {
	p := still(t)
	parts := p.partitions(50)
	fill := func(part *partition, records int) *batch {
		for i := range records {
			p.put(part, &router.Record{Value: make([]byte, 2000)}, uint64(i))
		}
		part.seal()
		b := part.queued[0]
		part.queued, part.usual = part.queued[:0], b.payload
		return b
	}
	p.cfg.MaxBatchBytes, parts[0].topic.limit = 8<<20, 8<<20
	for range 3 {
		for _, part := range parts[1:] {
			busy := fill(parts[0], 400)
			require.Less(t, len(busy.full), 200, "a busy partition has large chunks")
			busy.free()
			fill(part, 2).free()
		}
	}
	for _, part := range parts[1:] {
		require.LessOrEqual(t, cap(part.own.tickets), 2*spareFactor+spareTickets)
		require.LessOrEqual(t, cap(part.own.full), 2*spareFactor+spareFull)
	}
}
