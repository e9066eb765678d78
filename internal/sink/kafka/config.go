package kafka

import (
	"cmp"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go/compress"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// Config configures a Producer. Only Brokers and Acked are required.
type Config struct {
	wire.Cluster

	// Callbacks: records are acknowledged when they are in the log of all in-sync replicas. Ended is called with the
	// producer's lock.
	sink.Callbacks

	// Compression is none, gzip, snappy, lz4 or zstd. Default none.
	Compression string

	// MaxRequestBytes is where a request counts as full. Default 1 MiB.
	MaxRequestBytes int

	// MaxBatchBytes bounds a record batch, unless the topic's max.message.bytes is lower. The brokers' default
	// limit is 1,048,588 bytes. Default 1,000,000.
	MaxBatchBytes int

	// KeepTimestamps sends each record with its own timestamp, whatever its topic does with such a record. Default
	// false: see timestamp.go.
	KeepTimestamps bool

	// TimestampColumn is where timestamps come from, for the sentence about one that a topic refuses. Empty: from the
	// commit.
	TimestampColumn string

	// MetadataInterval is how often leaders and partition counts are asked for when nothing is wrong. Default 30 s.
	MetadataInterval time.Duration

	// Reconnected, when set, is called each time an established connection to a broker was lost.
	Reconnected func()

	// Owned: nothing is sent before Begin has fenced earlier producers of its owner, and nothing more after another
	// producer has fenced this one. Always so with Transactions. Default: no other producer is fenced, and none fences.
	Owned bool

	// Transactions, when set, makes delivery exactly-once: see Begin, ProduceAt and Mark. Default nil: idempotent.
	Transactions *Transactions

	// AwaitTopics has Produce wait until the partitions of the record's topic are known. Default false: the record is
	// taken and waits in the producer, see awaitingmetadata.go.
	AwaitTopics bool

	// CreateTopic, when set, says how to create a topic that a record needs and that does not exist. Default nil: such
	// a topic is waited for.
	CreateTopic func(name string) wire.TopicSettings

	// Ends gets the places of acknowledged batches. Default: one of the producer's own.
	Ends *LogEnds

	// Logger; default none.
	Logger *zap.Logger

	// Registerer, when set, gets the producer's metrics, prefix cdc_outbox_producer_.
	Registerer prometheus.Registerer

	pace      pace
	stageFrom int64 // how many partitions are in use where records are staged
	codec     compress.Codec
}

// pace holds the delays of retries. Tests shorten them.
type pace struct {
	backoffMin  time.Duration // first retry of a passing failure
	backoffMax  time.Duration
	slow        time.Duration // retry of a fault that an operator has to fix
	topicLookup time.Duration // look again for a topic that does not exist
	probeAfter  time.Duration // a partition idle for longer sends its first batch alone
	moveGrace   time.Duration // a broker that lost a partition may take this long to answer for it
	verifying   time.Duration // see mayVerify
	coordinator time.Duration // how long the transactional id's coordinator may be missing without transactions
	settling    time.Duration // leaders of a topic that is new, or maybe deleted, may be missing this long unreported
	slowAnswer  time.Duration // an answer that takes longer is a reason to ask who leads
	refused     time.Duration // a refused record is sent again, although no setting of its topic has changed
}

func defaultPace() pace {
	return pace{
		backoffMin:  50 * time.Millisecond,
		backoffMax:  5 * time.Second,
		slow:        10 * time.Second,
		topicLookup: time.Second,
		probeAfter:  time.Minute,
		moveGrace:   time.Second,
		verifying:   3 * time.Second,
		coordinator: coordinatorPatience,
		settling:    3 * time.Second,
		slowAnswer:  3 * time.Second,
		refused:     10 * time.Minute,
	}
}

// maxInFlight is how many requests a connection carries unanswered. A request holds at most one batch per partition
// and a partition stays on one connection, so no partition has more than five batches in flight: the number of
// batches per partition that a broker remembers to recognize repeats (ProducerStateEntry.NUM_BATCHES_TO_RETAIN).
const maxInFlight = 5

func (c *Config) setDefaults() {
	c.SetDefaults()
	c.Transactional = c.Transactions != nil
	c.Ends = cmp.Or(c.Ends, &LogEnds{})
	c.Compression = cmp.Or(c.Compression, "none")
	c.MaxRequestBytes = cmp.Or(c.MaxRequestBytes, 1<<20)
	c.MaxBatchBytes = cmp.Or(c.MaxBatchBytes, 1_000_000)
	c.MetadataInterval = cmp.Or(c.MetadataInterval, 30*time.Second)
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	c.pace = cmp.Or(c.pace, defaultPace())
	c.stageFrom = cmp.Or(c.stageFrom, manyPartitions)
}

// validate reports everything that is wrong at once, as a *fault.Error of kind Config.
func (c *Config) validate() error {
	codec, err := codecOf(c.Compression)
	c.codec = codec
	if c.MaxRequestBytes < 0 || c.MaxBatchBytes < 0 {
		err = errors.Join(err, errors.New("sizes are positive"))
	}
	return c.Validate(err)
}
