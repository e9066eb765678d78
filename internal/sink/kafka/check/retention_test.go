package check

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

func TestRetentionAgainstTheOldestRow(t *testing.T) {
	const week = "604800000"
	for name, c := range map[string]struct {
		age    time.Duration
		config map[string]string
		keep   bool
		want   []preflight.Level
	}{
		"young rows": {
			time.Hour, map[string]string{wire.CleanupPolicy: "delete", wire.RetentionMs: week}, true, nil,
		},
		"old rows": {
			240 * time.Hour,
			map[string]string{wire.CleanupPolicy: "delete", wire.RetentionMs: week},
			false,
			[]preflight.Level{preflight.OK},
		},
		"old rows of the preset": {
			240 * time.Hour,
			map[string]string{wire.CleanupPolicy: "delete", wire.RetentionMs: week},
			true,
			[]preflight.Level{preflight.Warn},
		},
		"the broker's time": {
			240 * time.Hour, map[string]string{
				wire.CleanupPolicy: "delete", wire.RetentionMs: week, wire.TimestampType: "LogAppendTime",
			}, true, nil,
		},
		"for ever": {
			240 * time.Hour, map[string]string{wire.CleanupPolicy: "delete", wire.RetentionMs: "-1"}, true, nil,
		},
		"compacted": {
			240 * time.Hour, map[string]string{wire.CleanupPolicy: "compact", wire.RetentionMs: week}, true, nil,
		},
		"not readable": {240 * time.Hour, nil, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := newChecker(Options{
				Cluster:   wire.Cluster{Brokers: []string{"127.0.0.1:9092"}},
				OldestRow: time.Now().Add(-c.age), KeepTimestamps: c.keep,
			})
			require.NoError(t, err)
			k.age("topic t", "t", c.config)
			var got []preflight.Level
			for _, f := range k.findings {
				got = append(got, f.Level)
				require.Contains(t, f.Found, "7 d")
				if f.Level == preflight.Warn {
					require.Contains(t, strings.Join(f.Commands, " "), "message.timestamp.type=LogAppendTime")
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}
