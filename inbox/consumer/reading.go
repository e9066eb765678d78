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
	client fetches
	most   int // records in a feed at which its partition is not asked for more
	logger *slog.Logger

	mu        sync.Mutex
	feeds     map[topicPartition]*feed
	rounds    int        // of run
	round     *sync.Cond // a round is over, or run is
	ended     bool       // run
	closing   int        // feeds that wait for a round
	interrupt func()     // ends the wait of the present round
}

// fetches is a *kgo.Client.
type fetches interface {
	AddConsumePartitions(partitions map[string]map[int32]kgo.Offset)
	RemoveConsumePartitions(partitions map[string][]int32)
	PauseFetchPartitions(partitions map[string][]int32) map[string][]int32
	ResumeFetchPartitions(partitions map[string][]int32)
	PollFetches(ctx context.Context) kgo.Fetches
	Close()
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
	return readingOf(client, o), nil
}

func readingOf(client fetches, o Options) *reading {
	r := &reading{
		client: client, most: o.Queue, logger: o.Logger, feeds: map[topicPartition]*feed{}, interrupt: func() {},
	}
	r.round = sync.NewCond(&r.mu)
	return r
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

// close ends the feed. An answer that run has in hand is given away first: a feed of the same partition that is opened
// afterwards may begin elsewhere, and would take it for what comes first.
func (f *feed) close() {
	f.of.client.RemoveConsumePartitions(f.partition())
	f.of.mu.Lock()
	f.of.closing++
	f.of.interrupt()
	for round := f.of.rounds; round == f.of.rounds && !f.of.ended; {
		f.of.round.Wait()
	}
	f.of.closing--
	delete(f.of.feeds, f.topicPartition)
	f.of.mu.Unlock()
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.take() // a partition that is opened again is not paused
}

func (f *feed) partition() map[string][]int32 { return map[string][]int32{f.topic: {int32(f.id)}} }

// run gives answers to the feeds until ctx ends.
func (r *reading) run(ctx context.Context) {
	var said time.Time
	for ctx.Err() == nil {
		waiting, interrupt := context.WithCancel(ctx)
		r.begin(interrupt)
		failed := r.give(waiting)
		interrupt()
		r.over(false)
		if failed == nil {
			continue
		}
		if time.Since(said) > time.Second {
			said = time.Now()
			r.logger.Warn("reading failed",
				"topic", failed.Topic, "partition", failed.Partition, "error", failed.Err.Error())
		}
		sleep(ctx, 100*time.Millisecond) // the client tries again at once
	}
	r.over(true)
}

// give waits for something to give away, and returns a partition that could not be read.
func (r *reading) give(ctx context.Context) (failed *kgo.FetchTopicPartition) {
	r.client.PollFetches(ctx).EachPartition(func(p kgo.FetchTopicPartition) {
		r.mu.Lock()
		f := r.feeds[topicPartition{p.Topic, int(p.Partition)}]
		r.mu.Unlock()
		if f != nil {
			f.put(p.Records, ending(p.Err))
		}
		if p.Err != nil && !errors.Is(p.Err, context.Canceled) && ending(p.Err) == nil {
			failed = &p
		}
	})
	return failed
}

func (r *reading) begin(interrupt func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.interrupt = interrupt; r.closing > 0 {
		interrupt()
	}
}

func (r *reading) over(ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds++
	r.ended = r.ended || ended
	r.round.Broadcast()
}

// put adds the records of an answer.
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

// take returns the records so far, and an error that nothing comes after.
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
