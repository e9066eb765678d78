package consumer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// One topic of two does not exist, and later its dead-letter topic does not. The other is consumed, the consumer says
// which one is missing, and the topic is read from its first event on once both exist, also the partition that it gets
// later.
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
	const noLetters = "its dead-letter topic does not exist; create it: kafka-topics.sh --bootstrap-server " +
		"BROKER:9092 --create --topic later.DLT"
	require.Eventually(t, func() bool {
		err := c.Ready()
		return err != nil && strings.Contains(err.Error(), "the topic later cannot be read: "+noLetters)
	}, time.Minute, 10*time.Millisecond)
	require.Len(t, j.ids(), 20)
	require.NoError(t, b.CreateTopic("later.DLT", 1, nil))
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

// A consumer that is alone with a topic that does not exist waits for it, and has its first events. So has a group that
// begins at the end.
//
// Bug (letters): A group that begins at the end began at the end of a topic that was made while its consumer ran. Cost:
// its first events were never handled.
func TestNoTopicExistsYet(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the members of a group to find each other")
	}
	t.Parallel()
	for _, fromEnd := range []bool{false, true} {
		t.Run(fmt.Sprint("from the end ", fromEnd), func(t *testing.T) {
			t.Parallel()
			noTopicExistsYet(t, fromEnd)
		})
	}
}

func noTopicExistsYet(t *testing.T, fromEnd bool) {
	t.Helper()
	b := newBed(t, 1)
	require.NoError(t, b.CreateTopic("later.DLT", 1, nil))
	var j journal
	opts := b.options()
	opts.Topics, opts.FromEnd = []string{"later"}, fromEnd
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

// A topic that is deleted and made again is another topic. All its events are handled, whatever the offset of the
// group, while the consumer runs or does not, and wherever the group begins.
//
// Bug (letters): The offset of a deleted topic was taken for one of the topic that was made under its name. Cost: the
// first events of the new topic, as many as the former one had, were never handled, without a word.
func TestATopicThatIsMadeAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the members of a group to find each other")
	}
	t.Parallel()
	for name, test := range madeAgain {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, 2)
			opts := b.options()
			opts.FromEnd = test.fromEnd
			proveMadeAgain(t, opts, b.Admin(), test.running)
		})
	}
}

var madeAgain = map[string]struct{ running, fromEnd bool }{
	"while it runs": {true, false}, "while it does not run": {false, false},
	"a group that began at the end": {true, true},
}

func proveMadeAgain(t *testing.T, opts consumer.Options, admin *kadm.Client, running bool) {
	t.Helper()
	var j journal
	run := func() (stop func()) {
		c, err := consumer.New(opts, func(_ context.Context, m consumer.Message) error { j.add(m); return nil })
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		if opts.FromEnd {
			require.Eventually(t, func() bool { return c.Ready() == nil }, time.Minute, 10*time.Millisecond)
		}
		return func() {
			cancel()
			require.NoError(t, <-ended)
		}
	}
	produce := func(prefix string, n int) { // with a client that knows nothing of a former topic
		client, err := kgo.NewClient(kgo.SeedBrokers(opts.Brokers...))
		require.NoError(t, err)
		defer client.Close()
		for i := range n {
			r := record(fmt.Sprint(i), fmt.Sprintf("%s%02d", prefix, i))
			r.Topic = opts.Topics[0]
			require.NoError(t, client.ProduceSync(t.Context(), r).FirstErr())
		}
	}
	await := func(n int) {
		require.Eventually(t, func() bool {
			seen := map[string]bool{}
			for _, id := range j.ids() {
				seen[id] = true
			}
			return len(seen) == n
		}, time.Minute, 10*time.Millisecond)
	}
	stop := run()
	produce("a", 10)
	await(10)
	if !running {
		stop()
	}
	offsets, err := admin.FetchOffsets(t.Context(), opts.Group)
	require.NoError(t, err)
	_, err = admin.DeleteTopics(t.Context(), opts.Topics...)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // a broker deletes in the background
		made, err := admin.CreateTopic(t.Context(), 2, 1, nil, opts.Topics[0])
		return err == nil && made.Err == nil
	}, time.Minute, 10*time.Millisecond)
	produce("b", 20)
	if !running { // and a member that was about to end commits what it had
		anew, err := kadm.NewOptClient(kgo.SeedBrokers(opts.Brokers...))
		require.NoError(t, err)
		defer anew.Close()
		require.NoError(t, anew.CommitAllOffsets(t.Context(), opts.Group, offsets.Offsets()))
		stop = run()
	}
	await(30)
	stop()
	stop = run()
	before := len(j.ids())
	produce("last", 1)
	await(31)
	stop()
	require.Len(t, j.ids(), before+1, "the offset is the new topic's")
}
