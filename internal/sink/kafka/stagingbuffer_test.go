package kafka

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// staging is a still producer that stages, with a topic.
func staging(t *testing.T, partitions int, change ...func(*Config)) (*Producer, []*partition) {
	t.Helper()
	p := still(t, append(change, func(cfg *Config) { cfg.stageFrom = 1 })...)
	parts := p.partitions(partitions)
	p.inUse.Store(int64(partitions))
	parts[0].topic.look()
	return p, parts
}

// Records wait in the stage, and a goroutine that takes the lock finds them in their batches.
func TestTheLockSettles(t *testing.T) {
	p, parts := staging(t, 1)
	now := time.Now().UnixMilli()
	rec := &router.Record{Topic: "t", Partition: -1, Key: []byte("key"), Value: []byte("value"), Timestamp: now}
	for i := range 2 {
		require.NoError(t, p.Produce(t.Context(), rec, uint64(i)))
	}
	require.Len(t, p.stage.records, 2)
	require.Nil(t, parts[0].open)
	require.EqualValues(t, 2, p.produced)

	rec.Value[0] = 'V' // it belongs to the caller again
	p.mu.Lock()
	require.Empty(t, p.stage.records)
	require.Equal(t, []uint64{0, 1}, parts[0].open.tickets)
	require.EqualValues(t, 2*rec.Size(), parts[0].open.window)
	require.Equal(t, parts[0].open.size(), parts[0].pending)
	require.True(t, parts[0].isReady)
	require.Equal(t, parts[0].pending, parts[0].broker.readyBytes)
	data, err := parts[0].open.expand()
	require.NoError(t, err)
	require.Contains(t, string(data), "value")
	p.mu.Unlock()

	for i := range mostStaged {
		require.NoError(t, p.Produce(t.Context(), rec, uint64(2+i)))
	}
	require.Empty(t, p.stage.records, "it is full")
	require.Len(t, parts[0].open.tickets, 2+mostStaged)
	require.LessOrEqual(t, cap(p.stage.bodies), mostStaged*2*largestStaged)
}

// What needs more than a place in a batch is not staged, and does not overtake what is.
func TestNotStaged(t *testing.T) {
	now := time.Now().UnixMilli()
	for name, change := range map[string]func(p *Producer, rec *router.Record){
		"few partitions":          func(p *Producer, _ *router.Record) { p.inUse.Store(0) },
		"it names its partition":  func(_ *Producer, rec *router.Record) { rec.Partition = 0 },
		"no key":                  func(_ *Producer, rec *router.Record) { rec.Key = nil },
		"a tag":                   func(_ *Producer, rec *router.Record) { rec.Tag = "tag" },
		"a timestamp of long ago": func(_ *Producer, rec *router.Record) { rec.Timestamp = 1 },
		"it is large":             func(_ *Producer, rec *router.Record) { rec.Value = make([]byte, largestStaged) },
	} {
		p, parts := staging(t, 1)
		rec := router.Record{Topic: "t", Partition: -1, Key: []byte("key"), Timestamp: now}
		require.NoError(t, p.Produce(t.Context(), &rec, 1))
		require.Len(t, p.stage.records, 1, name)
		change(p, &rec)
		require.NoError(t, p.Produce(t.Context(), &rec, 2))
		require.Empty(t, p.stage.records, name)
		require.Equal(t, []uint64{1, 2}, parts[0].open.tickets, name)
	}
	p, _ := staging(t, 1)
	topic := p.topic("t")
	rec := router.Record{Topic: "t", Partition: -1, Key: []byte("key"), Timestamp: now}
	for name, unready := range map[string]func(){
		"stale": func() { topic.stale = true }, "grows": func() { topic.stale, topic.more = false, 2 },
		"refused": func() { topic.more, topic.refused = 0, &refusals{} },
		"unknown": func() { topic.refused, topic.partitions = nil, nil },
	} {
		*topic = *p.topic("t")
		unready()
		require.False(t, p.stages(topic, &rec, rec.Size()), name)
	}
}

// The stage changes nothing about what is sent: batches, their sizes and what the caller gets back are the same.
func TestStageChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // marks end a transaction that has become old
		for _, transactional := range []bool{false, true} {
			seed, now := rand.Uint64(), time.Now().UnixMilli()
			run := func(from int64) *Producer {
				r := rand.New(rand.NewPCG(seed, 0))
				p := still(t, func(cfg *Config) {
					cfg.stageFrom, cfg.MaxBatchBytes = from, 3000
					if transactional {
						exactlyOnce("first")(cfg)
					}
				})
				if transactional {
					p.own.begun, p.ctx = true, t.Context()
				}
				parts := p.partitions(5)
				p.inUse.Store(5)
				parts[0].topic.look()
				for i := range 2000 {
					rec := router.Record{
						Topic: "t", Partition: int32(r.IntN(20)) - 19, Key: fmt.Appendf(nil, "key-%d", r.IntN(40)),
						Value: make([]byte, r.IntN(1200)), Timestamp: now - int64(r.IntN(1000)),
					}
					rec.Partition = max(rec.Partition, -1)
					if r.IntN(50) == 0 {
						rec.Tag = i
					}
					if r.IntN(3) == 0 {
						rec.Headers = []router.Header{{Key: "header", Value: []byte("value")}, {Key: "null"}}
					}
					require.NoError(t, p.ProduceAt(t.Context(), &rec, uint64(i), at(uint64(i))))
					if r.IntN(100) == 0 {
						p.Mark()
					}
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				return p
			}
			want, got := run(math.MaxInt64), run(1)
			require.Equal(t, want.produced, got.produced)
			if transactional {
				w, g := want.tx.filling, got.tx.filling
				require.Equal(t, []any{w.records, w.bytes, w.last}, []any{g.records, g.bytes, g.last})
			}
			for i, part := range want.topics["t"].partitions {
				other := got.topics["t"].partitions[i]
				require.Equal(t, part.pending, other.pending, "seed %d", seed)
				part.seal()
				other.seal()
				require.Len(t, other.queued, len(part.queued), "seed %d", seed)
				for j, b := range part.queued {
					o := other.queued[j]
					require.Equal(t, []any{b.records, b.payload, b.window, b.firstTimestamp, b.maxTimestamp},
						[]any{o.records, o.payload, o.window, o.firstTimestamp, o.maxTimestamp}, "seed %d", seed)
					require.Equal(t, b.tickets, o.tickets)
					require.Equal(t, b.tags, o.tags)
					all := func(b *batch) []byte { return slices.Concat(slices.Collect(b.chunks())...) }
					require.Equal(t, all(b), all(o))
				}
			}
		}
	})
}
