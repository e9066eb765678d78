package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// order returns the indexes of the ready partitions, and checks the list from both ends.
func order(t *testing.T, l *readyList) []int32 {
	t.Helper()
	var forth, back []int32
	for part := l.first; part != nil; part = part.next {
		require.True(t, part.isReady)
		forth = append(forth, part.index)
	}
	for part := l.last; part != nil; part = part.before {
		back = append([]int32{part.index}, back...)
	}
	require.Equal(t, forth, back)
	require.Len(t, forth, l.n)
	return forth
}

func TestReadyList(t *testing.T) {
	parts := make([]*partition, 4)
	l := &readyList{}
	for i := range parts {
		parts[i] = &partition{index: int32(i)}
		l.add(parts[i])
	}
	require.Equal(t, []int32{0, 1, 2, 3}, order(t, l))
	for _, step := range []struct {
		remove int
		want   []int32
	}{{1, []int32{0, 2, 3}}, {0, []int32{2, 3}}, {3, []int32{2}}, {2, nil}} {
		l.remove(parts[step.remove])
		require.False(t, parts[step.remove].isReady)
		require.Equal(t, step.want, order(t, l))
	}
	l.add(parts[3])
	l.add(parts[0])
	require.Equal(t, []int32{3, 0}, order(t, l))
}

// A partition keeps its turn when a batch of it is acknowledged: otherwise each answer would put its partitions at the
// end, and batches would be small where there are many partitions.
func TestAnAnswerKeepsTheTurn(t *testing.T) {
	p := still(t)
	parts := p.partitions(3)
	b := parts[0].broker
	first := parts[0]
	first.state = normal
	keyed(first, "before")
	sent := first.take(p.id)
	p.ready(parts)
	require.Equal(t, []int32{0, 1, 2}, order(t, &b.ready))
	p.resolve(sent, wire.VerdictOf(0))
	require.Equal(t, []int32{0, 1, 2}, order(t, &b.ready))
	require.Equal(t, first.counted, first.pending)
}

// A request does not look at thousands of heads that do not fit, and one that was passed over is first the next time.
func TestCollectsWhatWasPassedOverNext(t *testing.T) {
	p := still(t)
	parts := p.partitions(3 + maxPassedOver)
	p.ready(parts)
	b := parts[0].broker
	p.cfg.MaxRequestBytes = parts[0].head().size()
	require.Len(t, p.collect(b).batches, 1)
	require.EqualValues(t, 1, order(t, &b.ready)[0])
}

// While ready batches are small, two requests in flight are enough; a partition with much to send fills all five.
func TestSmallBatchesGather(t *testing.T) {
	const full = 1 << 20
	for name, test := range map[string]struct {
		ready, partitions, flying int
		want                      bool
	}{
		"small, none flies":        {full, 1000, 0, true},
		"small, one flies":         {full, 1000, 1, true},
		"small, two fly":           {full, 1000, 2, false},
		"large enough":             {1000 * smallBatch, 1000, 2, true},
		"few partitions":           {full, full / smallBatch, 4, true},
		"not full, large":          {full - 1, 1, 1, false},
		"not full, one flies":      {full - 1, 1000, 1, false},
		"one partition, four fly":  {full, 1, 4, true},
		"half full and none flies": {full / 2, 1000, 0, true},
	} {
		b := &broker{readyBytes: test.ready, inflight: make([]*request, test.flying)}
		b.ready.n = test.partitions
		require.Equal(t, test.want, b.due(full, full/idleFraction, false), name)
	}
	tiny := &broker{readyBytes: 10, inflight: make([]*request, 4)}
	tiny.ready.n = 1
	require.True(t, tiny.due(10, 5, false), "a request is full before a batch is large")
}

// A topic is found again by the number that the router gave its name; the name decides.
func TestTopicsByNumber(t *testing.T) {
	p := still(t)
	find := func(name string, number uint32) *topic {
		return p.topicOf(&router.Record{Topic: name, TopicNumber: number})
	}
	a, b := find("a", 1), find("b", 2)
	require.Equal(t, []string{"a", "b"}, []string{a.name, b.name})
	require.NotEqual(t, a.number, b.number, "in the order of a request, each topic has its place")
	require.Same(t, a, find("a", 1))
	require.Same(t, a, find("a", 0), "without a number")
	require.Same(t, b, find("b", 1), "another router")
	require.Same(t, a, find("a", 1))
	require.Same(t, b, find("b", maxTopicNumber+1))
	require.LessOrEqual(t, len(p.numbered), maxTopicNumber+1)
}
