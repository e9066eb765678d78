package kafka

import (
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		require.NoError(t, c.CreateTopic("t", 1, map[string]string{"max.message.bytes": "1000"}))
		r := newRig(t, c)
		for range 500 {
			r.produce("t", "k")
		}
		r.check()
		require.Zero(t, testutil.ToFloat64(r.metrics.splits), "the limit is known before the first batch")
	})
}

// TestTooLargeUnknown: who may not read the topic's configuration finds its limit by splitting.
func TestTooLargeUnknown(t *testing.T) {
	t.Parallel()
	for _, compression := range []string{"none", "gzip"} {
		t.Run(compression, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				require.NoError(t, c.CreateTopic("t", 1, map[string]string{"max.message.bytes": "1000"}))
				c.Fault(kfake.Fault{
					Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.TopicAuthorizationFailed, Count: -1,
				})
				r := newRig(t, c, func(cfg *Config) { cfg.Compression = compression })
				for range fewer(2000) {
					r.produce("t", "k")
				}
				r.check()
				require.Positive(t, testutil.ToFloat64(r.metrics.splits))
			})
		})
	}
}

// TestTooLargeAlone: a single record that the topic does not take is refused when it is known, and taken when the topic
// takes it.
func TestTooLargeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "other"))
		require.NoError(t, c.CreateTopic("t", 1, map[string]string{"max.message.bytes": "60"}))
		r := newRig(t, c)
		var asked []sink.RefusedError
		r.policy = func(_ *router.Record, err *sink.RefusedError) *router.Record {
			if asked = append(asked, *err); len(asked) == 3 {
				limit(t, c, "t", "1000")
			}
			return nil
		}
		r.produce("t", "k")
		r.produce("t", "k")
		r.produce("other", "k")
		r.check()
		require.GreaterOrEqual(t, len(asked), 3)
		require.Equal(t, []any{sink.TooLarge, 60}, []any{asked[0].Reason, asked[0].Limit})
		require.Empty(t, r.Trouble())
	})
}
