package letterbox

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
)

func TestRetentionAgainstOpenLetters(t *testing.T) {
	now := time.Now()
	entry := func(state deadletter.State, age time.Duration) *deadletter.Entry {
		return &deadletter.Entry{State: state, Summary: deadletter.Summary{Written: now.Add(-age)}}
	}
	const day = 24 * time.Hour
	const policy, age, size = "cleanup.policy", "retention.ms", "retention.bytes"
	const week = "604800000"
	for name, c := range map[string]struct {
		config  map[string]string
		entries []*deadletter.Entry
		want    []string // in each finding
	}{
		"young": {
			map[string]string{policy: "delete", age: week},
			[]*deadletter.Entry{entry(deadletter.Open, 3*day)},
			nil,
		},
		"half of the time": {
			map[string]string{policy: "delete", age: week, size: "-1"},
			[]*deadletter.Entry{entry(deadletter.Open, day), entry(deadletter.Interrupted, 4*day)},
			[]string{"7 d, and the oldest of 2 open dead letters is 4 d old. In 3 d Kafka begins to delete them"},
		},
		"past": {
			map[string]string{policy: "delete", age: week},
			[]*deadletter.Entry{entry(deadletter.Open, 8*day)},
			[]string{"the oldest of 1 open dead letter is 8 d old. Kafka may delete them at any time"},
		},
		"decided": {
			map[string]string{policy: "delete,compact", age: week, size: "1"},
			[]*deadletter.Entry{entry(deadletter.Retried, 8*day), entry(deadletter.Dismissed, 8*day)},
			nil,
		},
		"for ever": {
			map[string]string{policy: "delete", age: "-1"}, []*deadletter.Entry{entry(deadletter.Open, 800*day)}, nil,
		},
		"as long as Kafka can count": {
			map[string]string{policy: "delete", age: "9223372036854775807"},
			[]*deadletter.Entry{entry(deadletter.Open, 800*day)},
			nil,
		},
		"compacted": {
			map[string]string{policy: "compact", age: week},
			[]*deadletter.Entry{entry(deadletter.Open, 8*day)},
			[]string{"It is compacted"},
		},
		"everything": {
			map[string]string{policy: "compact,delete", age: week, size: "1048576"},
			[]*deadletter.Entry{entry(deadletter.Open, 8*day)},
			[]string{"It is compacted", "keeps records for 7 d", "at most about 1"},
		},
		"not readable": {map[string]string{}, []*deadletter.Entry{entry(deadletter.Open, 8*day)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			found := judge("orders.DLT", c.config, c.entries, now, func(s string) string { return "set " + s })
			require.Len(t, found, len(c.want))
			for i, f := range found {
				require.Contains(t, f.Found+" "+f.Why, c.want[i])
				require.True(t, strings.HasPrefix(f.Commands[0], "set "))
			}
		})
	}
}
