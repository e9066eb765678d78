package kafka

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// A record may be too large by a bound that costs little: more than its size in a batch.
func TestTightRecords(t *testing.T) {
	rec := &router.Record{Key: []byte("key"), Value: []byte("value"), Headers: []router.Header{{Key: "a"}, {Key: "b"}}}
	bound := rec.Size() + wire.HeaderSize + 12
	for limit, want := range map[int]bool{0: false, 1: true, bound - 1: true, bound: false, bound + 1: false} {
		require.Equal(t, want, (&topic{max: limit}).tight(rec, rec.Size()), limit)
	}
}

// The halves share the window by the sizes of their records, and tags by the middle.
func TestHalvesOfWindowAndTags(t *testing.T) {
	records := variety()[:6]
	size := int64(0)
	for i := range records {
		if i < 3 {
			size += int64(records[i].Size())
		}
		records[i].Tag = i
	}
	b := fill(t, records)
	b.window += 100
	left, right, err := b.halves()
	require.NoError(t, err)
	require.Equal(t, size, left.window)
	require.Equal(t, b.window-size, right.window)
	require.Equal(t, []sink.Tag{{Record: 0, Tag: 0}, {Record: 1, Tag: 1}, {Record: 2, Tag: 2}}, left.tags)
	require.Equal(t, []sink.Tag{{Record: 0, Tag: 3}, {Record: 1, Tag: 4}, {Record: 2, Tag: 5}}, right.tags)
}

// A record that ends within its own length is damage, though the rest of the batch has bytes.
func TestDamagedRecords(t *testing.T) {
	for name, data := range map[string][]byte{
		"shorter than its length":         {20, 0, 0},
		"its length ends in the middle":   {2, 0, 0, 0, 0, 0},
		"its length ends after the delta": {4, 0, 0, 0, 0, 0},
	} {
		_, _, err := nextRecord(data)
		require.Error(t, err, name)
	}
	_, rest, err := nextRecord([]byte{6, 0, 0, 0, 9})
	require.NoError(t, err)
	require.Equal(t, []byte{9}, rest)
}

// Halves share the size of the whole; only a refusal for its size lowers the limit.
func TestSplitsInTheQueue(t *testing.T) {
	for name, lowers := range map[string]bool{"MESSAGE_TOO_LARGE": true, "INVALID_RECORD": false} {
		p := still(t)
		part := p.partitions(1)[0]
		keyed(part, "a", "b", "c")
		keyed(part, "d")
		part.topic.limit, part.topic.described = 1<<20, true
		p.split(part, verdictNamed(name))
		require.Len(t, part.queued, 3, name)
		sum := 0
		for _, b := range part.queued {
			sum += b.size()
		}
		require.Equal(t, sum, part.pending, name)
		require.Equal(t, lowers, part.topic.limit == minBatchLimit, name)
		require.Equal(t, !lowers, part.topic.described, name)
	}
}

// The limit that was asked for lately counts, an older one is asked for again, and without one everything fits.
func TestFitsByALimitOfLate(t *testing.T) {
	const slow = time.Hour
	rec := &router.Record{Value: make([]byte, 100)}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		room    int // beyond what the record takes alone
		ago     time.Duration
		refused bool
		asks    bool
	}{
		"it fits": {0, 0, false, false}, "too large": {-1, slow - 1, true, false},
		"too large by an old limit": {-1, slow, false, true}, "no limit": {-1 << 20, 0, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := still(t, func(cfg *Config) { cfg.pace.slow = slow })
			topic := p.topic("t")
			alone, err := p.cfg.sizeAlone(rec)
			require.NoError(t, err)
			topic.max, topic.describedAt = max(0, alone+test.room), time.Now().Add(-test.ago)
			p.mu.Lock()
			defer p.mu.Unlock()
			err = p.fits(ended, topic, rec)
			var refused *sink.RefusedError
			require.Equal(t, test.refused, errors.As(err, &refused), name)
			require.Equal(t, test.asks, errors.Is(err, context.Canceled), name)
			require.Equal(t, !test.refused && !test.asks, err == nil, name)
		})
	}
}
