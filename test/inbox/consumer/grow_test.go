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

// A partition is added while the group is behind, and the key's new events are in it. They are handled after its older
// events, also where the group has not handled a single one of these.
//
// Bug (monitor): Partitions were added while a group had a lag, and the key's new events were handled before its older
// events. Cost: twelve events out of order, in no document.
func TestAddedPartitionsKeepTheOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the members of a group to find each other")
	}
	t.Parallel()
	for _, handled := range []int{3, 0} {
		t.Run(fmt.Sprintf("%d handled", handled), func(t *testing.T) { growBehind(t, handled) })
	}
}

func growBehind(t *testing.T, handled int) {
	b := newBed(t, 1)
	var want []string
	produce := func(partition int32, from, to int) {
		manual, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, err)
		defer manual.Close()
		for i := from; i < to; i++ {
			r := record("k", fmt.Sprintf("e%02d", i))
			r.Partition = partition
			want = append(want, fmt.Sprintf("e%02d", i))
			require.NoError(t, manual.ProduceSync(t.Context(), r).FirstErr())
		}
	}
	produce(0, 0, 30)
	var j journal
	handle := func(_ context.Context, m consumer.Message) error {
		time.Sleep(10 * time.Millisecond) //waits:ok the work, which lets the group fall behind
		j.add(m)
		return nil
	}
	opts := b.options()
	opts.AddedInOrder, opts.Drain = true, 20*time.Second
	if handled > 0 {
		stop := start(t, opts, handle)
		j.await(t, handled)
		require.NoError(t, stop())
	}

	added, err := b.Admin().CreatePartitions(t.Context(), 1, topic)
	require.NoError(t, err)
	require.NoError(t, added[topic].Err)
	produce(1, 30, 40)
	start(t, opts, handle)
	j.await(t, 40)
	require.Equal(t, want, j.ids())
}
