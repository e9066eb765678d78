package letterbox

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

func TestRetentionAgainstOpenLetters(t *testing.T) {
	now := time.Now()
	entry := func(state deadletter.State, age time.Duration) *deadletter.Entry {
		return &deadletter.Entry{State: state, Summary: deadletter.Summary{Written: now.Add(-age)}}
	}
	const day = 24 * time.Hour
	const week = 7 * day
	for name, c := range map[string]struct {
		keeps   sink.Retention
		entries []*deadletter.Entry
		want    []string // in each finding
	}{
		"young": {
			sink.Retention{Age: week},
			[]*deadletter.Entry{entry(deadletter.Open, 3*day)},
			nil,
		},
		"half of the time": {
			sink.Retention{Age: week},
			[]*deadletter.Entry{entry(deadletter.Open, day), entry(deadletter.Interrupted, 4*day)},
			[]string{"7 d, and the oldest of 2 open dead letters is 4 d old. In 3 d Kafka begins to delete them"},
		},
		"past": {
			sink.Retention{Age: week},
			[]*deadletter.Entry{entry(deadletter.Open, 8*day)},
			[]string{"the oldest of 1 open dead letter is 8 d old. Kafka may delete them at any time"},
		},
		"decided": {
			sink.Retention{Compacted: true, Age: week, Bytes: 1},
			[]*deadletter.Entry{entry(deadletter.Retried, 8*day), entry(deadletter.Dismissed, 8*day)},
			nil,
		},
		"for ever": {
			sink.Retention{}, []*deadletter.Entry{entry(deadletter.Open, 800*day)}, nil,
		},
		"compacted": {
			sink.Retention{Compacted: true},
			[]*deadletter.Entry{entry(deadletter.Open, 8*day)},
			[]string{"It is compacted"},
		},
		"everything": {
			sink.Retention{Compacted: true, Age: week, Bytes: 1 << 20, Partition: true},
			[]*deadletter.Entry{entry(deadletter.Open, 8*day)},
			[]string{"It is compacted", "keeps records for 7 d", "at most about 1 MiB of a partition"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.keeps.KeepAge, c.keeps.KeepBytes, c.keeps.KeepKeys = "set age", "set bytes", "set policy"
			found := judge("orders.DLT", "Kafka", c.keeps, c.entries, now)
			require.Len(t, found, len(c.want))
			for i, f := range found {
				require.Contains(t, f.Found+" "+f.Why, c.want[i])
				require.True(t, strings.HasPrefix(f.Commands[0], "set "))
			}
		})
	}
}
