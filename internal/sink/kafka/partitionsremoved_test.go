package kafka

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// Records of a partition that no longer exists move, up to the first that named the partition. Sizes, tags and tickets
// go with them.
func TestScatter(t *testing.T) {
	topic := &topic{name: "t"}
	topic.adopt(5)
	topic.fewer = 3
	from := topic.partitions[4]
	var here []string // keys of partition 4 by target
	for i := 0; len(here) < 3; i++ {
		if key := fmt.Sprint("k", i); partitionOf([]byte(key), 5) == 4 {
			here = append(here, key)
		}
	}
	other := "x"
	for i := 0; partitionOf([]byte(other), 5) == 4; i++ {
		other = fmt.Sprint("x", i)
	}
	b := keyed(from, here[0], "", here[1], other, here[2], "")
	b.made, b.window = 77, b.window+10 // a header of our own
	moved, stray, rest, err := b.scatter(topic)
	require.NoError(t, err)

	got := map[uint64]int32{}
	tags := map[uint64]any{}
	window := int64(0)
	take := func(m *batch, index int32) {
		require.Equal(t, []int64{77}, []int64{m.made})
		for _, ticket := range m.tickets {
			got[ticket] = index
		}
		require.Equal(t, 1000+int64(m.tickets[0]-100), m.firstTimestamp)
		require.Equal(t, 1000+int64(m.tickets[len(m.tickets)-1]-100), m.maxTimestamp)
		for _, tag := range m.tags {
			tags[m.tickets[tag.Record]] = tag.Tag
		}
		window += m.window
	}
	for _, m := range moved {
		take(m, m.part.index)
	}
	take(stray, -1)
	take(rest, -2)
	require.Equal(t, map[uint64]int32{
		100: partitionOf([]byte(here[0]), 3), 101: 4 % 3, 102: partitionOf([]byte(here[1]), 3),
		103: -1, 104: -2, 105: -2,
	}, got)
	require.Equal(t, map[uint64]any{101: "", 103: other, 105: ""}, tags)
	require.Equal(t, b.window, window)
	require.Same(t, from, stray.part)
	require.Same(t, from, rest.part)
}

func TestPartitionStrands(t *testing.T) {
	one := []*batch{{}}
	for name, test := range map[string]struct {
		part partition
		want bool
	}{
		"nothing":          {partition{}, false},
		"open":             {partition{open: &batch{}}, true},
		"queued":           {partition{queued: one}, true},
		"in flight":        {partition{inflight: one}, true},
		"held":             {partition{held: one}, true},
		"of each":          {partition{queued: one, inflight: one, held: one}, true},
		"queued, in air":   {partition{queued: one, inflight: one}, true},
		"refused":          {partition{open: &batch{}, refused: &refused{}}, false},
		"waiting":          {partition{queued: one, waiting: true}, false},
		"refused, waiting": {partition{queued: one, refused: &refused{}, waiting: true}, false},
		"waits, empty":     {partition{waiting: true}, false},
	} {
		require.Equal(t, test.want, test.part.strands(), name)
	}
}

// A partition that no longer exists is emptied only when nothing of it is under way or to be decided.
func TestRepartitionWaits(t *testing.T) {
	for name, test := range map[string]struct {
		busy func(part *partition)
		want int
	}{
		"idle":      {func(*partition) {}, 0},
		"in flight": {func(part *partition) { part.unanswered = 1 }, 1},
		"refused":   {func(part *partition) { part.refused = &refused{} }, 1},
		"waiting":   {func(part *partition) { part.waiting = true }, 1},
	} {
		core, logs := observer.New(zap.WarnLevel)
		p := still(t, func(cfg *Config) { cfg.Logger = zap.New(core) })
		parts := p.partitions(2)
		keyed(parts[1], "")
		test.busy(parts[1])
		topic := parts[0].topic
		topic.fewerSeen, topic.fewerAt = fewerAnswers, time.Now().Add(-p.cfg.pace.slow)
		size := parts[1].pending
		p.shrink(topic, 1)
		require.Equal(t, 1, logs.FilterMessageSnippet("with fewer partitions").Len(), name)
		p.shrink(topic, 1)
		require.Equal(t, test.want*size, parts[1].pending, name)
		require.Equal(t, (1-test.want)*size, parts[0].pending, name)
		require.Len(t, parts[1].queued, test.want, name)
		require.Len(t, parts[0].queued, 1-test.want, name)
		require.Equal(t, 1, logs.FilterMessageSnippet("with fewer partitions").Len(), name)
	}
}

// Fewer partitions are believed at the eleventh answer and after the time, both at the least.
func TestBelievesInFewerPartitions(t *testing.T) {
	for name, test := range map[string]struct {
		seen int
		ago  time.Duration
		want int
	}{
		"both": {fewerAnswers, time.Hour, 1}, "an answer less": {fewerAnswers - 1, time.Hour, 2},
		"a moment less": {fewerAnswers, time.Hour - 1, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := still(t, func(cfg *Config) { cfg.pace.slow = time.Hour })
			topic := p.partitions(2)[0].topic
			topic.fewerSeen, topic.fewerAt = test.seen-1, time.Now().Add(-test.ago)
			p.shrink(topic, 1)
			require.Len(t, topic.partitions, test.want, name)
		})
	}
}

// A batch that moves comes before what belongs to the next transaction, and its partition is named to the coordinator.
func TestMovesWithinItsTransaction(t *testing.T) {
	for name, test := range map[string]struct {
		queued string // of the target: l for the live transaction, n for the next
		live   bool   // the batch is of the live one
		led    bool
		at     int
	}{
		"empty": {"", true, true, 0}, "after its own": {"ll", true, true, 2}, "between": {"lnn", true, true, 1},
		"before the next": {"n", true, true, 0}, "of the next": {"ln", false, true, 2},
		"of the next, after the live": {"l", false, true, 1}, "no leader": {"ln", true, false, 1},
	} {
		p, x := transacting(t)
		parts := p.partitions(2)
		next := &transaction{}
		x.filling = next
		of := map[rune]*transaction{'l': x.live, 'n': next}
		for _, kind := range test.queued {
			keyed(parts[0], "x").tx = of[kind]
		}
		if !test.led {
			parts[0].broker = nil
		}
		b := keyed(parts[1], "moved")
		b.part, b.tx = parts[0], next
		if test.live {
			b.tx = x.live
		}
		p.control.metaAt = later(time.Hour)
		before := parts[0].pending
		p.enqueue(b)
		require.Same(t, b, parts[0].queued[test.at], name)
		require.Equal(t, before+b.size(), parts[0].pending, name)
		require.Equal(t, []*partition{parts[0]}, b.tx.unadded, name)
		require.Equal(t, !test.live, parts[0].filling == next, name)
		require.Equal(t, test.live, poked(x.wake), name)
		require.Equal(t, !test.led, time.Until(p.control.metaAt) < time.Minute, name)
		x.leave(parts[0])
		require.Empty(t, b.tx.parts, name)
		x.live.parts = slices.Clone(parts)
		x.leave(parts[0])
		require.Equal(t, parts[1:], x.live.parts, name)
	}
}
