package reader

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

func TestRetentionOfATopic(t *testing.T) {
	const policy, age, size = "cleanup.policy", "retention.ms", "retention.bytes"
	const week = "604800000"
	type settings = map[string]string
	for name, c := range map[string]struct {
		config map[string]string
		want   sink.Retention
	}{
		"may not be read": {nil, sink.Retention{}},
		"by age": {
			settings{policy: "delete", age: week, size: "-1"}, sink.Retention{Age: 7 * 24 * time.Hour},
		},
		"at once": {
			settings{policy: "delete", age: "0", size: "0"}, sink.Retention{Age: 1, Bytes: 1},
		},
		"for ever":                   {settings{policy: "delete", age: "-1"}, sink.Retention{}},
		"as long as Kafka can count": {settings{policy: "delete", age: "9223372036854775807"}, sink.Retention{}},
		"compacted, not deleted": {
			settings{policy: "compact", age: week, size: "1"}, sink.Retention{Compacted: true},
		},
		"both": {
			settings{policy: "compact,delete", size: "1048576"}, sink.Retention{Compacted: true, Bytes: 1 << 20},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, retentionOf(c.config)) })
	}
}
