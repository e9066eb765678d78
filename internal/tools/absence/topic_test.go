package absence

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// TestDoubt: only a partition that may have had the record makes its absence doubtful.
func TestDoubt(t *testing.T) {
	at := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	key := []byte("k")
	own, none := kafka.PartitionOf(key, 4), time.Time{}
	other := (own + 1) % 3
	topic := func(whole time.Time, emptied ...int32) *Topic {
		tp := &Topic{removed: make([]time.Time, 4), whole: whole}
		for i := range int32(4) {
			tp.spans = append(tp.spans, sink.Span{Topic: "t", Partition: i})
		}
		for _, i := range emptied {
			tp.removed[i] = at.Add(time.Minute)
		}
		return tp
	}
	keyed := &router.Record{Topic: "t", Key: key, Partition: -1}
	for name, c := range map[string]struct {
		topic *Topic
		rec   *router.Record
		at    time.Time
		want  int32 // -1: no doubt
	}{
		"nothing was removed":               {topic(at), keyed, none, -1},
		"its own partition":                 {topic(at, own), keyed, at, own},
		"another partition":                 {topic(at, other), keyed, at, -1},
		"maybe it had fewer partitions":     {topic(at.Add(time.Second), other), keyed, at, other},
		"it is not known how many it had":   {topic(none, other), keyed, at, other},
		"no key":                            {topic(at, other), &router.Record{Topic: "t", Partition: -1}, at, other},
		"a chosen partition":                {topic(at, other), &router.Record{Key: key, Partition: other}, at, other},
		"another than the chosen partition": {topic(none, own), &router.Record{Key: key, Partition: other}, at, -1},
		"a row that is newer":               {topic(at, own), keyed, at.Add(time.Minute), -1},
		"a row without a time":              {topic(at, other), keyed, none, other},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.topic.Doubt(c.rec, c.at)
			if c.want < 0 {
				require.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			require.Equal(t, c.want, got.Span.Partition)
			require.Equal(t, at.Add(time.Minute), got.Before)
		})
	}
}
