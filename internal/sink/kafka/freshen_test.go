package kafka

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// A row's timestamp goes into the header once, and not at all where the topic keeps the row's.
func TestTimelyHeaders(t *testing.T) {
	old := int64(1600000000000)
	own := []router.Header{{Key: "id"}, original(nil, 77)}
	for name, test := range map[string]struct {
		keep    bool
		max     int
		headers []router.Header
		want    []router.Header
		kept    bool // the timestamp
	}{
		"an old row":       {false, 0, own[:1], []router.Header{{Key: "id"}, original(nil, old)}, false},
		"it has a header":  {false, 0, own, own, false},
		"it is all it has": {false, 0, own[1:], own[1:], false},
		"a preset's":       {true, 0, own[:1], own[:1], true},
		"no room for it":   {false, 1, own[:1], own[:1], false},
	} {
		p := still(t, func(cfg *Config) { cfg.KeepTimestamps = test.keep })
		topic := p.topic("t")
		topic.max = test.max
		rec := topic.timely(&router.Record{Headers: test.headers, Timestamp: old}, p.cfg.KeepTimestamps, &p.stamped)
		require.Equal(t, test.want, rec.Headers, name)
		require.Equal(t, test.kept, rec.Timestamp == old, name)
	}
}

// A batch that has waited past the bound gets the present time for records that are too old.
func TestFreshens(t *testing.T) {
	const past = int64(1000)
	now := time.UnixMilli(1_795_000_000_000)
	ms := now.UnixMilli()
	for name, test := range map[string]struct {
		keep, open bool
		made       int64
		fresh      bool
	}{
		"young":        {false, false, ms - past, false},
		"old":          {false, false, ms - past - 1, true},
		"old and open": {false, true, ms - past - 1, true},
		"a preset's":   {true, false, ms - past - 1, false},
	} {
		p := still(t, func(cfg *Config) { cfg.KeepTimestamps = test.keep })
		part := p.partitions(1)[0]
		part.topic.shifts = shifts{past: past, ahead: past}
		part.begin()
		b := part.open
		for i, at := range []int64{ms - past - 1, ms - past, ms} {
			rec := &router.Record{Value: []byte("v"), Timestamp: at, Tag: i}
			b.append(rec, uint64(i), math.MaxInt)
		}
		b.made, b.window = test.made, 42
		before := b.size()
		part.pending = before
		if !test.open {
			part.seal()
		}
		part.freshen(now, &p.cfg)
		head := part.head()
		require.Equal(t, test.fresh, head.made != test.made, name)
		require.Equal(t, head.size(), part.pending, name)
		if !test.fresh {
			require.Equal(t, before, head.size())
			continue
		}
		require.Equal(t, []uint64{0, 1, 2}, head.tickets, name)
		require.Equal(t, []sink.Tag{{Record: 0, Tag: 0}, {Record: 1, Tag: 1}, {Record: 2, Tag: 2}}, head.tags, name)
		require.EqualValues(t, 42, head.window)
		require.WithinDuration(t, time.Now(), time.UnixMilli(head.made), time.Minute)
		data, err := head.expand()
		require.NoError(t, err)
		var kept []int64
		var said []string
		for range head.tickets {
			var raw rawRecord
			raw, data, err = nextRecord(data)
			require.NoError(t, err)
			rec, err := raw.decode()
			require.NoError(t, err)
			kept = append(kept, head.firstTimestamp+raw.timestampDelta)
			if at := originalAt(rec.Headers); at >= 0 {
				said = append(said, string(rec.Headers[at].Value))
			}
		}
		require.Equal(t, []int64{head.made, ms - past, ms}, kept, name)
		require.Equal(t, []string{fmt.Sprint(ms - past - 1)}, said, name)
	}
}

// A batch that was sent keeps its place, and gets headers only where the topic takes it with them.
func TestRestampsWithinTheLimit(t *testing.T) {
	for name, test := range map[string]struct {
		sequenced  bool
		limit, max int // beyond the batch with all its headers
		want       bool
	}{
		"not sent":            {false, -1, -1, true},
		"sent":                {true, -1, -1, false},
		"sent, it fits":       {true, 0, -1, true},
		"sent, by the topic":  {true, -1, 0, true},
		"sent, there is room": {true, 50, 50, true},
	} {
		part := &partition{topic: &topic{name: "t"}}
		b := keyed(part, "a", "b")
		most := b.size() + 2*originalBytes
		part.topic.limit, part.topic.max = most+test.limit, most+test.max
		if test.sequenced {
			b.assign(identity{1, 2}, 3)
		}
		require.Equal(t, test.want, b.takesHeaders(), name)
		fresh, err := b.restamped(5000, math.MaxInt64)
		require.NoError(t, err)
		require.Equal(t, []any{b.sequenced, b.identity, b.sequence, b.tickets, b.window},
			[]any{fresh.sequenced, fresh.identity, fresh.sequence, fresh.tickets, fresh.window}, name)
		require.Equal(t, []int64{5000, 5000}, []int64{fresh.firstTimestamp, fresh.maxTimestamp}, name)
		data, err := fresh.expand()
		require.NoError(t, err)
		raw, _, err := nextRecord(data)
		require.NoError(t, err)
		rec, err := raw.decode()
		require.NoError(t, err)
		require.Equal(t, test.want, originalAt(rec.Headers) >= 0, name)
	}
}

// Timestamps that the topic refuses are renewed once at once, and then slowly.
func TestRefusedTimestampsAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := still(t)
		part := p.partitions(1)[0]
		keyed(part, "a")
		cause := wire.VerdictOf(wire.InvalidTimestamp)
		part.topic.described = true
		require.NoError(t, p.refusedTimestamp(part, cause))
		require.False(t, part.waiting)
		require.False(t, part.topic.described)
		require.True(t, part.queued[0].refusedTimes)
		require.NoError(t, p.refusedTimestamp(part, cause))
		part.wait(t, p.cfg.pace.slow)
	})
}

// The original timestamp is taken out of the headers wherever it is, and no second one is added.
func TestTakesTheOriginalTimestamp(t *testing.T) {
	id := router.Header{Key: "id"}
	for name, headers := range map[string][]router.Header{
		"alone": {original(nil, 77)}, "first": {original(nil, 77), id}, "last": {id, original(nil, 77)},
	} {
		part := &partition{topic: &topic{name: "t"}}
		b := newBatch(part)
		b.append(&router.Record{Headers: headers, Timestamp: 1000}, 1, math.MaxInt)
		fresh, err := b.restamped(5000, 2000)
		require.NoError(t, err)
		data, err := fresh.expand()
		require.NoError(t, err)
		raw, _, err := nextRecord(data)
		require.NoError(t, err)
		rec, err := raw.decode()
		require.NoError(t, err)
		require.Len(t, rec.Headers, len(headers), name)
		takeOriginal(&rec)
		require.EqualValues(t, 77, rec.Timestamp, name)
		require.Len(t, rec.Headers, len(headers)-1, name)
	}
	rec := router.Record{Headers: []router.Header{id}, Timestamp: 5}
	takeOriginal(&rec)
	require.Equal(t, router.Record{Headers: []router.Header{id}, Timestamp: 5}, rec)
	odd := []router.Header{{Key: router.HeaderOriginalTimestamp, Value: []byte("x")}}
	rec = router.Record{Headers: odd, Timestamp: 5}
	takeOriginal(&rec)
	require.Equal(t, router.Record{Headers: odd, Timestamp: 5}, rec)
}
