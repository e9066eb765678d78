package consumer_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
)

// TestStopWhileTheGroupForms: a broker answers a member that joins when all have, which may take half a minute. A
// member that is asked to stop does not wait for it.
//
// Bug (monitor): A consumer, and `forward`, that was asked to stop while it joined its group waited for the broker's
// answer. Cost: up to 35 seconds, longer than a service manager waits.
func TestStopWhileTheGroupForms(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1)
	asked, release, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	joins := sync.OnceFunc(func() { close(asked) })
	b.ControlKey(kmsg.JoinGroup.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		if r.(*kmsg.JoinGroupRequest).MemberID == "" { // KIP-394: the answer is an id
			return nil, nil, false
		}
		joins()
		b.SleepControl(func() { <-release })
		return nil, nil, false
	})
	leaves := sync.OnceFunc(func() { close(left) })
	b.ControlKey(kmsg.LeaveGroup.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		leaves()
		return nil, nil, false
	})
	c, err := consumer.New(b.options(), func(context.Context, consumer.Message) error { return nil })
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	<-asked
	stop()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for the broker's answer")
	}
	<-left // the group does not wait for it
}

// TestAnswersToAnotherQuestion: kafka-go panics over offsets of a partition that it has not asked about.
//
// Bug (monitor): An answer to ListOffsets about another partition made kafka-go panic in a goroutine of the consumer.
// Cost: the end of the service, or of `forward`, as often as the broker answered so.
func TestAnswersToAnotherQuestion(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1)
	b.produce(t, record("k", "a"))
	var lies atomic.Int32
	b.ControlKey(kmsg.ListOffsets.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		if lies.Add(1) > 3 {
			return nil, nil, false
		}
		b.KeepControl()
		req := r.(*kmsg.ListOffsetsRequest)
		answer := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, asked := range req.Topics {
			topic := kmsg.NewListOffsetsResponseTopic()
			topic.Topic = asked.Topic
			for _, p := range asked.Partitions {
				partition := kmsg.NewListOffsetsResponseTopicPartition()
				partition.Partition, partition.Timestamp, partition.Offset = p.Partition+1, 5, 7
				topic.Partitions = append(topic.Partitions, partition)
			}
			answer.Topics = append(answer.Topics, topic)
		}
		return answer, nil, true
	})
	handled := make(chan string, 1)
	c, err := consumer.New(b.options(), func(_ context.Context, m consumer.Message) error {
		handled <- m.ID
		return nil
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	require.Equal(t, "a", <-handled)
	stop()
	require.NoError(t, <-ended)
	require.Greater(t, lies.Load(), int32(1))
}
