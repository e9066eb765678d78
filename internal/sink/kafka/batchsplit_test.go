package kafka

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
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
				for range 2000 {
					r.produce("t", "k")
				}
				r.check()
				require.Positive(t, testutil.ToFloat64(r.metrics.splits))
			})
		})
	}
}

// TestTooLargeAlone: a single record that the topic does not take stops its partition, and nothing else, until the
// topic takes it.
func TestTooLargeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, kfake.SeedTopics(1, "other"))
		require.NoError(t, c.CreateTopic("t", 1, map[string]string{"max.message.bytes": "60"}))
		r := newRig(t, c)
		r.produce("t", "k")
		r.produce("t", "k")
		r.produce("other", "k")
		r.Flush()
		require.Eventually(t, func() bool {
			ts := r.Trouble()
			return len(ts) == 1 && ts[0].Kind == sink.RecordTooLarge && ts[0].Object == "partition t/0"
		}, testPatience, time.Millisecond)
		require.Eventually(t, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.acked[3] == 1 }, testPatience,
			time.Millisecond)

		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		res := kmsg.NewIncrementalAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
		res.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{
			Name:  "max.message.bytes",
			Value: kmsg.StringPtr("1000"),
		}}
		req.Resources = append(req.Resources, res)
		_, err := req.RequestWith(context.Background(), adminClient(t, c))
		require.NoError(t, err)
		r.check()
		require.Empty(t, r.Trouble())
	})
}
