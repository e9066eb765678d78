package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Only a partition with records that Acked has not heard of keeps a topic from losing its partitions at once.
func TestPartitionHolds(t *testing.T) {
	one := []*batch{{}}
	for name, test := range map[string]struct {
		part partition
		want bool
	}{
		"nothing": {partition{}, false}, "open": {partition{open: &batch{}}, true},
		"queued": {partition{queued: one}, true}, "in flight": {partition{inflight: one}, true},
		"held": {partition{held: one}, true}, "waits, empty": {partition{waiting: true}, false},
	} {
		require.Equal(t, test.want, test.part.holds(), name)
	}
}

// Fewer partitions are believed at the eleventh answer and after the time, both at the least. The session ends if
// records wait, in whatever partition.
func TestBelievesInFewerPartitions(t *testing.T) {
	for name, test := range map[string]struct {
		seen  int
		ago   time.Duration
		want  int
		holds int // the partition with a record, -1 for none
		ends  bool
	}{
		"both":              {fewerAnswers, time.Hour, 1, -1, false},
		"an answer less":    {fewerAnswers - 1, time.Hour, 2, 1, false},
		"a moment less":     {fewerAnswers, time.Hour - 1, 2, 1, false},
		"a record stays":    {fewerAnswers, time.Hour, 2, 0, true},
		"a record strands":  {fewerAnswers, time.Hour, 2, 1, true},
		"more than believe": {fewerAnswers + 5, 2 * time.Hour, 2, 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var ended error
			p := still(t, func(cfg *Config) {
				cfg.pace.slow, cfg.Ended = time.Hour, func(err error) { ended = err }
			})
			parts := p.partitions(2)
			topic := parts[0].topic
			if test.holds >= 0 {
				keyed(parts[test.holds], "a")
			}
			topic.fewerSeen, topic.fewerAt = test.seen-1, time.Now().Add(-test.ago)
			p.shrink(topic, 1)
			require.Len(t, topic.partitions, test.want, name)
			if !test.ends {
				require.NoError(t, ended, name)
				return
			}
			require.ErrorIs(t, ended, sink.ErrSessionOver, name)
			require.ErrorContains(t, ended, `topic "t": it was made again with 1 partitions instead of 2`, name)
			p.forget()
			require.Len(t, topic.partitions, 1, name)
			require.Equal(t, 1, p.dropped.Records, name)
			require.NoError(t, p.ended, name)
		})
	}
}
