package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// One topic of two does not exist. The other is consumed, the consumer says which one is missing, and it is read from
// its first event on once it exists, also the partition that it gets later.
//
// Bug (monitor): A topic that did not exist ended each generation of the group as soon as it began, and the consumer
// was ready. Cost: none of the events of the other topics was handled, 100 generations a second, no line in the log. A
// topic that was created while its consumer ran was never read.
func TestMissingTopic(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the members of a group to find each other")
	}
	t.Parallel()
	b := newBed(t, 2)
	require.NoError(t, b.CreateTopic("later.DLT", 1, nil))
	for i := range 20 {
		b.produce(t, record(fmt.Sprint(i), fmt.Sprintf("e%02d", i)))
	}
	var j journal
	opts := b.options()
	opts.Topics = []string{topic, "later"}
	c, err := consumer.New(opts, func(_ context.Context, m consumer.Message) error { j.add(m); return nil })
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	j.await(t, 20)
	require.ErrorContains(t, c.Ready(), "the topic later cannot be read: it does not exist")
	require.Equal(t, []string{"later"}, c.Status().Missing)
	generation := c.Status().Generation

	produce := func(partition int32, id string) {
		manual, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, err)
		defer manual.Close()
		r := record("k", id)
		r.Topic, r.Partition = "later", partition
		require.NoError(t, manual.ProduceSync(t.Context(), r).FirstErr())
	}
	require.NoError(t, b.CreateTopic("later", 1, nil))
	produce(0, "first")
	j.await(t, 21)
	require.Contains(t, j.ids(), "first")
	require.Eventually(t, func() bool { return c.Ready() == nil }, time.Minute, 10*time.Millisecond)
	require.Empty(t, c.Status().Missing)

	added, err := b.Admin().CreatePartitions(t.Context(), 1, "later")
	require.NoError(t, err)
	require.NoError(t, added["later"].Err)
	produce(1, "second")
	j.await(t, 22)
	require.Contains(t, j.ids(), "second")
	require.Less(t, c.Status().Generation, generation+10, "a generation for each change, and no storm")
	cancel()
	require.NoError(t, <-ended)
}

// A consumer that is alone with a topic that does not exist waits for it.
func TestNoTopicExistsYet(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the members of a group to find each other")
	}
	t.Parallel()
	b := newBed(t, 1)
	require.NoError(t, b.CreateTopic("later.DLT", 1, nil))
	var j journal
	opts := b.options()
	opts.Topics = []string{"later"}
	c, err := consumer.New(opts, func(_ context.Context, m consumer.Message) error { j.add(m); return nil })
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	require.Eventually(t, func() bool { return len(c.Status().Missing) > 0 }, time.Minute, 10*time.Millisecond)
	require.Error(t, c.Ready())
	require.NoError(t, b.CreateTopic("later", 1, nil))
	r := record("k", "first")
	r.Topic = "later"
	b.produce(t, r)
	j.await(t, 1)
	cancel()
	require.NoError(t, <-ended)
}
