package kafka

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// TestTagsTellWhereARecordIs: what comes back with an acknowledgement is the tag of the record that a consumer finds at
// that partition and offset, also when batches are split, and nothing comes back twice.
func TestTagsTellWhereARecordIs(t *testing.T) {
	t.Parallel()
	for _, tx := range []bool{false, true} {
		t.Run(fmt.Sprintf("transactions %v", tx), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newCluster(t, kfake.SeedTopics(3, "plain"))
				var mu sync.Mutex
				got := map[string]string{} // value -> partition/offset
				rig := newRig(t, cluster, func(c *Config) {
					acked := c.Acked
					c.Acked = func(d sink.Delivery) {
						mu.Lock()
						for _, tag := range d.Tags {
							value := tag.Tag.(string)
							require.NotContains(t, got, value)
							got[value] = fmt.Sprintf("%s/%d/%d", d.Topic, d.Partition, d.BaseOffset+int64(tag.Record))
						}
						mu.Unlock()
						acked(d)
					}
					if tx {
						c.Transactions = &Transactions{Instance: "test"}
					}
				})
				if tx {
					_, _, err := rig.Begin(t.Context(), sink.Owner{ID: "cdc-outbox.1.s", SystemID: "1"})
					require.NoError(t, err)
				}
				records := fewer(3000)
				for i := range records {
					if i == 10 {
						rig.drain()
						limit(t, cluster, "plain", "2000") // which the producer does not know
					}
					rec := &router.Record{
						Topic: "plain", Partition: -1, Key: fmt.Appendf(nil, "k%d", i%17),
						Value: fmt.Appendf(nil, "v%d", i), Timestamp: 1700000000000,
					}
					if i%7 == 0 {
						rec.Tag = string(rec.Value)
					}
					rig.ticket++
					require.NoError(t, rig.ProduceAt(t.Context(), rec, rig.ticket, at(uint64(i+1))))
				}
				rig.Mark()
				rig.drain()
				require.Positive(t, testutil.ToFloat64(rig.metrics.splits))
				want := where(t, cluster, "plain", records)
				mu.Lock()
				defer mu.Unlock()
				require.Len(t, got, (records+6)/7)
				for value, place := range got {
					require.Equal(t, want[value], place)
				}
			})
		})
	}
}

// where reads a topic with another client: value -> partition/offset.
func where(t *testing.T, c *kfake.Cluster, topic string, n int) map[string]string {
	t.Helper()
	client, err := newClient(c.ListenAddrs(), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out := map[string]string{}
	for len(out) < n {
		fetches := client.PollFetches(ctx)
		require.NoError(t, ctx.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			out[string(r.Value)] = fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition,
				r.Offset)
		})
	}
	return out
}
