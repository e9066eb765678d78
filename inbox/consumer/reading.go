package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// reading reads the partitions that were opened, all by one client. Each has a feed, which one goroutine empties.
type reading struct {
	client *kgo.Client
	most   int // records in a feed at which its partition is not asked for more
	logger *slog.Logger

	mu    sync.Mutex
	feeds map[topicPartition]*feed
}

// feed holds what was read of a partition: records of committed transactions, and the markers that end transactions,
// which are not events, but have an offset each.
type feed struct {
	of *reading
	topicPartition
	ready chan struct{} // holds an element after something came

	mu      sync.Mutex
	records []*kgo.Record
	err     error // that nothing comes after
	paused  bool
	closed  bool
}

func newReading(ctx context.Context, end func(), o Options) (*reading, error) {
	client, err := o.newClient(ctx, end, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.MaxVersions(namedVersions(false)))
	if err != nil {
		return nil, err
	}
	return &reading{client: client, most: o.Queue, logger: o.Logger, feeds: map[topicPartition]*feed{}}, nil
}

// open begins to read at an offset, which exists; negative: at the first record.
func (r *reading) open(tp topicPartition, at int64) *feed {
	f := &feed{of: r, topicPartition: tp, ready: make(chan struct{}, 1)}
	r.mu.Lock()
	r.feeds[tp] = f
	r.mu.Unlock()
	from := kgo.NewOffset().AtStart()
	if at >= 0 {
		from = kgo.NewOffset().At(at)
	}
	r.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{tp.topic: {int32(tp.id): from}})
	return f
}

// close ends the feed.
func (f *feed) close() {
	f.of.client.RemoveConsumePartitions(f.partition())
	f.of.mu.Lock()
	delete(f.of.feeds, f.topicPartition)
	f.of.mu.Unlock()
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.take() // a partition that is opened again is not paused
}

func (f *feed) partition() map[string][]int32 { return map[string][]int32{f.topic: {int32(f.id)}} }

// run gives what is read to the feeds until ctx ends.
func (r *reading) run(ctx context.Context) {
	var said time.Time
	for ctx.Err() == nil {
		failed := false
		r.client.PollFetches(ctx).EachPartition(func(p kgo.FetchTopicPartition) {
			tp := topicPartition{p.Topic, int(p.Partition)}
			r.mu.Lock()
			f := r.feeds[tp]
			r.mu.Unlock()
			if f != nil {
				f.put(p.Records, ending(p.Err))
			}
			if p.Err == nil || ctx.Err() != nil || ending(p.Err) != nil {
				return
			}
			if failed = true; time.Since(said) > time.Second {
				said = time.Now()
				r.logger.Warn("reading failed", "topic", p.Topic, "partition", p.Partition, "error", p.Err.Error())
			}
		})
		if failed {
			sleep(ctx, 100*time.Millisecond) // the client tries again at once
		}
	}
}

// put adds what was read.
func (f *feed) put(records []*kgo.Record, err error) {
	f.mu.Lock()
	f.records = append(f.records, records...)
	if f.err == nil {
		f.err = err
	}
	if !f.closed && !f.paused && len(f.records) >= f.of.most {
		f.paused = true
		f.of.client.PauseFetchPartitions(f.partition())
	}
	f.mu.Unlock()
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// take returns what has come, and an error that nothing comes after.
func (f *feed) take() ([]*kgo.Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paused {
		f.paused = false
		f.of.client.ResumeFetchPartitions(f.partition())
	}
	records := f.records
	f.records = nil
	return records, f.err
}

// ending returns an error after which the client reads no further.
func ending(err error) error {
	var loss *kgo.ErrDataLoss
	var large *kgo.ErrDecompressTooLarge
	if errors.Is(err, kerr.OffsetOutOfRange) || errors.As(err, &loss) || errors.As(err, &large) {
		return err
	}
	return nil
}
