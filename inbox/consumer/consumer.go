package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Consumer is one member of a consumer group.
type Consumer struct {
	opts    Options
	handle  BatchHandler
	batches bool     // otherwise handle gets one record a call
	cluster *cluster // while Run runs
	members members
}

// New checks the options and returns a Consumer. It does not connect.
func New(opts Options, handle Handler) (*Consumer, error) {
	if handle == nil {
		return nil, errNoHandler
	}
	opts.Batch = 1
	return NewBatch(opts, func(ctx context.Context, ms []Message) error { return handle(ctx, ms[0]) })
}

// NewBatch is New for a handler that gets the records that wait in a partition together, up to Options.Batch.
func NewBatch(opts Options, handle BatchHandler) (*Consumer, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if handle == nil {
		return nil, errNoHandler
	}
	opts.Metrics.Expect(opts.Group, opts.Topics...)
	return &Consumer{opts: opts, handle: handle, batches: opts.Batch > 1}, nil
}

var errNoHandler = errors.New("consumer: a handler is required")

// LostError reports that records were removed from a topic before the group read them, or that the group's offset is
// after the end of the partition, for example because brokers lost acknowledged records. An operator has to decide
// whether to continue: set the group's offset and start again.
type LostError struct {
	Topic       string
	Partition   int
	Next, First int64 // the offset to read, and the first existing offset; First is -1 if Next is after the end
}

func (e *LostError) Error() string {
	state := "is after the end of the partition"
	if e.First >= 0 {
		state = fmt.Sprintf("no longer exists, because the partition begins at %d", e.First)
	}
	return fmt.Sprintf("consumer: %s partition %d: the next offset %d %s, so events may be missing; "+
		"recover the events, then set the group's offset (kafka-consumer-groups --reset-offsets)",
		e.Topic, e.Partition, e.Next, state)
}

// Run consumes until ctx ends. It then waits for running handlers, at most Drain, and returns nil. A broken connection
// does not end it. A *LostError does. Run may be called again, but not concurrently.
func (c *Consumer) Run(ctx context.Context) error {
	c.members.run(true)
	defer c.members.run(false)
	cluster, err := c.opts.newCluster(ctx)
	if err != nil {
		return fmt.Errorf("consumer: %w", err)
	}
	defer cluster.close()
	c.cluster = cluster
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var running sync.WaitGroup
	running.Go(func() { c.countLetters(ctx) })
	for next := c.awaitTopics(ctx); next != nil; {
		if next, err = c.join(ctx, *next, end); err != nil {
			err = fmt.Errorf("consumer: %w", err)
		}
	}
	end(nil)
	running.Wait()
	var lost *LostError
	if errors.As(context.Cause(ctx), &lost) {
		return lost
	}
	return err
}
