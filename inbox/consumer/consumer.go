package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/segmentio/kafka-go"
)

// Consumer is one member of a consumer group.
type Consumer struct {
	opts    Options
	handle  BatchHandler
	batches bool // otherwise handle gets one record a call
	client  *kafka.Client
	letters writer
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
// does not end it. A *LostError does, and so does a dead-letter topic that does not exist at the start. Run may be
// called again, but not concurrently.
func (c *Consumer) Run(ctx context.Context) error {
	c.members.run(true)
	defer c.members.run(false)
	transport := &kafka.Transport{Dial: c.opts.Dial, TLS: c.opts.TLS, SASL: c.opts.SASL, MetadataTTL: topicsEvery}
	defer transport.CloseIdleConnections()
	c.client = &kafka.Client{Addr: kafka.TCP(c.opts.Brokers...), Transport: transport}
	letters := newWriter(c.opts.Brokers, transport)
	defer func() { _ = letters.Close() }()
	c.letters = letters
	if err := c.checkDeadLetterTopics(ctx); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var running sync.WaitGroup
	running.Go(func() { c.countLetters(ctx) })
	var failed error
	for ctx.Err() == nil && failed == nil {
		if topics := c.awaitTopics(ctx); topics != nil {
			failed = c.join(ctx, topics, end)
		}
	}
	end(nil)
	running.Wait()
	if failed != nil {
		return failed
	}
	var lost *LostError
	if errors.As(context.Cause(ctx), &lost) {
		return lost
	}
	return nil
}

// join is a member of the group for these topics, until ctx ends or other topics can be read. An error of the
// configuration is returned.
func (c *Consumer) join(ctx context.Context, topics []string, end context.CancelCauseFunc) error {
	var distributed assigned
	l := &lines{open: map[net.Conn]bool{}}
	group, err := kafka.NewConsumerGroup(c.opts.group(topics, &distributed, l))
	if err != nil {
		return fmt.Errorf("consumer: %w", err)
	}
	over, leave := context.WithCancel(ctx)
	defer leave()
	var running, leaving sync.WaitGroup
	leaving.Go(func() {
		<-over.Done()
		l.end()
		_ = group.Close() // ends the generation, waits for its partitions, and leaves the group
	})
	for over.Err() == nil {
		gen, err := group.Next(over)
		switch {
		case over.Err() != nil:
		case err != nil: // the group pauses automatically before it tries again
			c.opts.Logger.Warn("joining the consumer group failed", "group", c.opts.Group, "error", err.Error())
		default:
			g := &generation{
				c: c, gen: gen, topics: topics, assigned: distributed.take(), wake: make(chan struct{}, 1),
				finished: map[string]map[int]int64{}, ids: &topicIDs{known: make(chan struct{})},
			}
			g.start(ctx, end, leave, &running)
		}
	}
	running.Wait()
	l.cut()
	leaving.Wait()
	return nil
}

// checkDeadLetterTopics finds a missing topic before the first record needs it. If the broker does not answer, joining
// the group reports it.
func (c *Consumer) checkDeadLetterTopics(ctx context.Context) error {
	var names []string
	for _, topic := range c.opts.Topics {
		names = append(names, c.opts.DeadLetterTopic(topic))
	}
	answer, err := answered(ctx, c.client.Metadata, &kafka.MetadataRequest{Topics: names})
	if err != nil {
		return nil //nolint:nilerr // joining the group reports that the broker does not answer
	}
	for _, topic := range answer.Topics {
		if errors.Is(topic.Error, kafka.UnknownTopicOrPartition) {
			return fmt.Errorf("consumer: the dead-letter topic %s does not exist; create it first: kafka-topics.sh "+
				"--bootstrap-server BROKER:9092 --create --topic %[1]s", topic.Name)
		}
	}
	return nil
}
