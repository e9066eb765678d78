//go:build e2e

package kafka

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
)

// TestRealFewerPartitions: a topic of a real Kafka is deleted under load and re-created with fewer partitions. What had
// not been acknowledged is in the new one.
func TestRealFewerPartitions(t *testing.T) {
	c := realKafka(t, "unused", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for mode, change := range modes {
		t.Run(mode, func(t *testing.T) {
			topic := "t-" + mode
			require.NoError(t, c.Create(ctx, kafkaclient.Topic{Name: topic, Partitions: 12}))
			r := newRigAt(t, c.Addrs(), change).start()
			r.loses = true
			burst := func() {
				for i := range 100 {
					r.produceAt(topic, fmt.Sprint("k", i%20))
				}
				r.whole()
			}
			burst()
			r.drain()
			r.sent = map[string][]string{}
			_, err := c.Admin().DeleteTopics(ctx, topic)
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				found, err := c.Admin().ListTopics(ctx, topic)
				return err == nil && !found.Has(topic)
			}, testPatience, 50*time.Millisecond)
			burst()
			require.Eventually(t, func() bool { // with ZooKeeper a deleted topic is there for a moment
				return c.Create(ctx, kafkaclient.Topic{Name: topic, Partitions: 2}) == nil
			}, testPatience, testTick)
			burst()
			r.drain()
			require.Empty(t, r.Trouble())

			cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.ConsumeTopics(topic),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
			require.NoError(t, err)
			defer cl.Close()
			var got []string
			for len(got) < len(r.sent[topic]) {
				fetches := cl.PollFetches(ctx)
				require.NoError(t, ctx.Err(), "%d of %d", len(got), len(r.sent[topic]))
				fetches.EachRecord(func(rec *kgo.Record) { got = append(got, string(rec.Value)) })
			}
			if r.tx == nil { // what was on the wire when the session ended may be there twice
				slices.Sort(got)
				got = slices.Compact(got)
			}
			require.ElementsMatch(t, r.sent[topic], got)
		})
	}
}
