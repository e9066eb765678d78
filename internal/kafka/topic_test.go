package kafka

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/kafka/wire"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
)

func TestTopicAppears(t *testing.T) {
	c := newCluster(t)
	r := newRig(t, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.produce("t", "k")
		r.Flush()
	}()
	require.Eventually(t, func() bool {
		ts := r.Trouble()
		return len(ts) == 1 && ts[0].Kind == wire.TopicMissing && ts[0].Object == `topic "t"` &&
			slices.Equal(ts[0].Commands,
				[]string{"kafka-topics.sh --bootstrap-server " + r.cfg.Brokers[0] +
					" --create --topic t --partitions 12"})
	}, 5*time.Second, time.Millisecond)
	require.NoError(t, c.CreateTopic("t", 3, nil))
	<-done
	r.check()
	require.Empty(t, r.Trouble())
}

// TestTopicDeleted: under load, and re-created. What was acknowledged went with the topic; the rest is in the new
// one, in order, without a hole.
func TestTopicDeleted(t *testing.T) {
	c := newCluster(t, kfake.SeedTopics(2, "t"))
	r := newRig(t, c, func(cfg *Config) { cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 200 })
	r.burst()
	r.drain()
	r.sent = map[string][]string{}
	require.NoError(t, c.DeleteTopic("t"))
	r.burst()
	require.Eventually(t, func() bool {
		for _, x := range r.Trouble() {
			if x.Kind == wire.TopicMissing {
				return true
			}
		}
		return false
	}, 5*time.Second, time.Millisecond)
	require.NoError(t, c.CreateTopic("t", 2, nil))
	r.burst()
	r.check()
	require.Empty(t, r.Trouble())
}

// TestPartitionsAdded: the newer records of a key go to another partition only when the older ones are acknowledged.
func TestPartitionsAdded(t *testing.T) {
	c := newCluster(t, kfake.SeedTopics(1, "t"))
	r := newRig(t, c, func(cfg *Config) {
		cfg.MetadataInterval = 20 * time.Millisecond
		cfg.MaxBatchBytes, cfg.MaxRequestBytes = 300, 200
	})
	for i := range 500 {
		if i == 100 {
			addPartitions(t, c, "t", 8)
		}
		r.produce("t", fmt.Sprint("k", i%20))
		if i%10 == 0 {
			r.Flush()
			time.Sleep(time.Millisecond)
		}
	}
	r.drain()
	r.checkAcks()
	require.Greater(t, len(r.order), 4, "the new partitions are used")
	got := r.read("t")
	require.Len(t, got, 500)
}
