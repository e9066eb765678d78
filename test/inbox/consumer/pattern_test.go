package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/fakebroker"
)

// TestTopicsByPattern: topics that match are read, also one that is made while the consumer runs, from its beginning,
// as soon as it has a dead-letter topic. Dead-letter topics and others are not.
func TestTopicsByPattern(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the list of topics to be looked at")
	}
	t.Parallel()
	b := testkit.FakeBroker(t, fakebroker.Options{Topics: map[string]int32{
		"order.events": 2, "order.events.DLT": 1, "unrelated": 1, "unrelated.DLT": 1, "events": 1, "events.DLT": 1,
	}})
	producer, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.UnknownTopicRetries(-1))
	require.NoError(t, err)
	t.Cleanup(producer.Close)
	produce := func(topic, id string) {
		t.Helper()
		r := record("k", id)
		r.Topic = topic
		require.NoError(t, producer.ProduceSync(t.Context(), r).FirstErr())
	}
	var j journal
	opts := consumer.Options{
		Brokers: b.Addrs(), Group: "billing", Pattern: `.*\.events(\.DLT)?`, FromEnd: true, Attempts: 1,
		Pause: time.Millisecond,
	}
	c, err := consumer.New(opts, func(_ context.Context, m consumer.Message) error {
		j.add(m)
		if m.ID == "bad" {
			return errBad
		}
		return nil
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	require.Eventually(t, func() bool {
		s := c.Status()
		return len(s.Partitions) == 2 && s.Partitions[0].Next >= 0 && s.Partitions[1].Next >= 0
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, c.Ready())
	produce("order.events", "bad")
	produce("unrelated", "no")
	produce("events", "no")
	j.await(t, 1)

	_, err = b.Admin().CreateTopics(t.Context(), 1, 1, nil, "item.events")
	require.NoError(t, err)
	produce("item.events", "first")
	require.Eventually(t, func() bool { return c.Ready() != nil }, time.Minute, 5*time.Millisecond)
	require.ErrorContains(t, c.Ready(),
		"the topic item.events cannot be read: its dead-letter topic does not exist; create it: kafka-topics.sh "+
			"--bootstrap-server BROKER:9092 --create --topic item.events.DLT")
	require.Equal(t, []string{"item.events"}, c.Status().Missing)
	produce("order.events", "meanwhile")
	j.await(t, 2)
	_, err = b.Admin().CreateTopics(t.Context(), 1, 1, nil, "item.events.DLT")
	require.NoError(t, err)
	j.await(t, 3)
	require.Equal(t, []string{"bad", "meanwhile", "first"}, j.ids())
	require.NoError(t, c.Ready())
	stop()
	require.NoError(t, <-ended)

	_, err = consumer.New(consumer.Options{Brokers: b.Addrs(), Group: "g", Pattern: "("}, consumer.Ignore)
	require.ErrorContains(t, err, "Pattern")
}
