package consumer

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// Options of a Consumer.
type Options struct {
	Brokers []string // Required.
	Group   string   // the consumer group. Required.
	Topics  []string // Required.
	TLS     *tls.Config
	SASL    sasl.Mechanism

	// FromEnd starts at the end of a partition for which the group has no offset yet. Default: at its beginning.
	FromEnd bool
	// Attempts is how often a record is given to the handler in all. Default: 5.
	Attempts int
	// Budget is the longest that one record holds up its partition, pauses included; the handler's context ends with it, and a handler has to heed that. It doesn't run while
	// Healthy fails or the event is contended. Default: 1m.
	Budget time.Duration
	// Pause in front of the second attempt, doubled up to MaxPause for each one after, with jitter. Default: 100ms and 10s.
	Pause, MaxPause time.Duration
	// Healthy tells a bad record from a bad day: it is asked after each failed attempt, and while it fails (the database is down) the record waits without
	// using up attempts or budget. Inbox.Ping is one. Default: every failure counts, so an outage longer than Budget fills the dead-letter topic.
	Healthy func(ctx context.Context) error
	// DeadLetterTopic names the topic for a record that can't be handled; it has to exist. Default: the record's topic + ".DLT".
	DeadLetterTopic func(topic string) string
	// Drain is how long a handler may go on when its partition is taken away or Run's context ends. Less than the group's
	// rebalance timeout, 30s. A member that dies is noticed Drain + 10s later. Default: 10s.
	Drain time.Duration
	// Recent is how many handled ids are remembered per partition. Default: 4096; negative: none.
	Recent int
	// Queue is how many records per partition are read ahead. Default: 100.
	Queue int
	// Start is called in front of each attempt and returns the context for it, e.g. with a span joined to the record's traceparent header, and a function that is called with
	// the attempt's result. Default: none.
	Start func(ctx context.Context, m Message) (context.Context, func(error))
	// Logger gets what goes wrong: ids, topics and errors, no keys and no payloads. The handler's errors are logged, and stored in dead letters,
	// as they are. Default: slog.Default().
	Logger *slog.Logger
	// Metrics counts duplicates that were dropped here, and dead letters. Default: none.
	Metrics *inbox.Metrics
}

const (
	rebalanceTimeout = 30 * time.Second
	heartbeat        = 2 * time.Second
	fetchWait        = 500 * time.Millisecond // also how long a close of a reader takes
)

func (o Options) withDefaults() (Options, error) {
	if len(o.Brokers) == 0 || o.Group == "" || len(o.Topics) == 0 {
		return o, errors.New("consumer: Brokers, Group and Topics are required")
	}
	o.Attempts = orInt(o.Attempts, 5)
	o.Recent = orInt(o.Recent, 4096)
	o.Queue = orInt(o.Queue, 100)
	o.Budget = orDuration(o.Budget, time.Minute)
	o.Pause = orDuration(o.Pause, 100*time.Millisecond)
	o.MaxPause = orDuration(o.MaxPause, 10*time.Second)
	o.Drain = orDuration(o.Drain, 10*time.Second)
	if o.Attempts < 0 || o.Queue < 0 || o.Budget < 0 || o.Pause < 0 || o.MaxPause < o.Pause || o.Drain < 0 {
		return o, errors.New("consumer: numbers and durations can't be negative, nor MaxPause less than Pause")
	}
	if o.Drain >= rebalanceTimeout {
		return o, errors.New("consumer: Drain must be less than 30s, after which the group goes on without this member")
	}
	if o.DeadLetterTopic == nil {
		o.DeadLetterTopic = func(topic string) string { return topic + ".DLT" }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

func orInt(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

func orDuration(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

func (o Options) dialer() *kafka.Dialer {
	return &kafka.Dialer{Timeout: 10 * time.Second, DualStack: true, TLS: o.TLS, SASLMechanism: o.SASL}
}

func (o Options) group() kafka.ConsumerGroupConfig {
	start := kafka.FirstOffset
	if o.FromEnd {
		start = kafka.LastOffset
	}
	return kafka.ConsumerGroupConfig{
		ID: o.Group, Brokers: o.Brokers, Dialer: o.dialer(), Topics: o.Topics, StartOffset: start,
		// kafka-go sends no heartbeats once a generation is over, so a session has to outlive the drain, or the last commit is refused.
		HeartbeatInterval: heartbeat, SessionTimeout: o.Drain + 5*heartbeat, RebalanceTimeout: rebalanceTimeout,
		JoinGroupBackoff: time.Second, WatchPartitionChanges: true,
	}
}

func (o Options) reader(topic string, partition int) kafka.ReaderConfig {
	return kafka.ReaderConfig{
		Brokers: o.Brokers, Topic: topic, Partition: partition, Dialer: o.dialer(), QueueCapacity: o.Queue,
		MinBytes: 1, MaxBytes: 10 << 20, MaxWait: fetchWait, ReadLagInterval: -1,
		IsolationLevel: kafka.ReadCommitted, OffsetOutOfRangeError: true,
	}
}
