package consumer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"regexp"
	"time"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cenkalti/backoff/v5"
)

// Options of a Consumer.
type Options struct {
	Brokers []string // Required.
	Group   string   // the consumer group. Required.
	// Topics to consume. A topic that does not exist, or whose dead-letter topic does not, waits for it, and Ready says
	// so; the others are consumed meanwhile. Required, unless Pattern is set.
	Topics []string
	// Pattern matches the names of topics to consume besides Topics, as a whole: the relay makes a topic for each
	// aggregate type. The list is looked at every few seconds. Internal topics and dead-letter topics are never meant.
	Pattern string
	TLS     *tls.Config
	Login   Login // default: none
	// Dial opens the connections to brokers, before TLS and SASL. Default: TCP with a limit of 10 s.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// ID finds the id of a record's event. Default: HeaderID("id", "ce_id"). MemberID is for records that have it in
	// their value only.
	ID ID
	// FromEnd starts at the end of a partition for which the group has no offset yet. That end is committed before the
	// first record is awaited, so records written from then on are handled, also if the member ends before it has
	// handled anything. A topic that is made while a consumer runs is read from its beginning. Default: at the
	// beginning.
	FromEnd bool
	// AddedInOrder keeps the order of keys when partitions are added to a topic while the group is behind, up to a
	// multiple of the number before: then keys move to added partitions only. A partition in which the group has
	// committed nothing waits with its first record until the group has handled the records that the older partitions
	// held then. So a new group begins with one partition after the other. No effect with FromEnd. Default: false.
	AddedInOrder bool
	// Attempts is the limit of how often a record is given to the handler. Default: as often as Budget allows, about
	// ten times.
	Attempts int
	// Budget is the longest time for which one record may delay its partition, including pauses. The handler's context
	// ends with the budget, and the handler must then return. Time in which Healthy fails or the event is contended
	// does not count. Default: 1m.
	Budget time.Duration
	// Pause is the time before the second attempt. It doubles for each later attempt, up to MaxPause, with jitter.
	// Default: 100ms and 10s.
	Pause, MaxPause time.Duration
	// Healthy distinguishes a bad record from an outage. It is called after each failed attempt. While it returns an
	// error, the record waits without using up attempts or budget. It is for dependencies of the handler besides the
	// inbox's database, which InTx and InSQLTx ask themselves. A handler that knows which call failed returns
	// Unavailable instead. Default: none, so such an outage that is longer than Budget fills the dead-letter topic.
	Healthy func(ctx context.Context) error
	// DeadLetterTopic returns the topic for a record that cannot be handled. It must exist. Default: the record's topic
	// + ".DLT".
	DeadLetterTopic func(topic string) string
	// HoldKeys keeps the order of a key when one of its events becomes a dead letter: while that letter is open, later
	// events of the key are not handled but become letters that wait for it, of the class Waiting. When the letter is
	// published again and handled, or dismissed, these letters are handled in their order, then the events after them.
	// The number is the limit of such letters for each partition, open and waiting ones; at the limit the partition
	// waits. It needs a handler that recognizes a repeat, such as InTx. Records without a key, and letters without an
	// event's id, hold nothing. Default: 0, a dead letter does not hold its key.
	HoldKeys int
	// Breaker is how many records in a row of one partition may become dead letters of the class Exhausted with one
	// cause: the same SQLSTATE, or the same text apart from the event's id. Then the records are hardly at fault, so
	// the next such record is tried until it is done, its partition waits, and Ready says so. Default: 10. Negative: no
	// limit.
	Breaker int
	// Stall is how long a partition in which records wait may make no progress before Ready says so. Default: 5m.
	Stall time.Duration
	// Drain is how long a handler may continue after its partition is revoked or Run's context ends. It must be less
	// than the group's rebalance timeout, 30s. The group notices a member that died after Drain + 10s. Default: 10s.
	Drain time.Duration
	// Recent is the number of ids that are remembered per partition of the records that were handled without an inbox.
	// Default: 4096. Negative: none.
	Recent int
	// Batch is how many records the handler of NewBatch gets at most. It gets records that have been read, and does not
	// wait for more: one at a time while the group keeps up, and full batches while it is behind. A record that has to
	// be looked at alone is not in a batch: one without an id, and with HoldKeys one whose key is held. The batch has
	// one Budget; choose a number that it suffices for. Default: 200.
	Batch int
	// Queue is the number of records per partition at which no more of them are asked for. What a broker sends at once,
	// up to 1 MiB, may be more. Default: 100, or twice Batch if that is more.
	Queue int
	// Start is called before each attempt. It returns the context for the attempt, for example with a span joined to
	// the record's traceparent header, and a function that is called with the result of the attempt. Of a batch it is
	// called for each record, and the handler's context is that of none of them. Default: none.
	Start func(ctx context.Context, m Message) (context.Context, func(error))
	// Logger gets warnings and errors: ids, topics and errors, but no keys and no payloads. The handler's errors are
	// logged and stored in dead letters unchanged. Default: slog.Default().
	Logger *slog.Logger
	// Metrics counts dead letters and the duplicates that are recognized without the ledger, and shows how far the
	// group is. For the number of open letters the consumer reads the dead-letter topics. Default: none.
	Metrics *inbox.Metrics

	pattern *regexp.Regexp
}

const (
	rebalanceTimeout = 30 * time.Second
	heartbeat        = 2 * time.Second
)

func (o Options) withDefaults() (Options, error) {
	if len(o.Brokers) == 0 || o.Group == "" || len(o.Topics) == 0 && o.Pattern == "" {
		return o, errors.New("consumer: Brokers, Group and Topics (or Pattern) are required")
	}
	if o.Pattern != "" {
		pattern, err := regexp.Compile(`^(?:` + o.Pattern + `)$`)
		if err != nil {
			return o, fmt.Errorf("consumer: Pattern: %w", err)
		}
		o.pattern = pattern
	}
	o.Attempts = orInt(o.Attempts, math.MaxInt)
	o.Recent = orInt(o.Recent, 4096)
	o.Batch = orInt(o.Batch, 200)
	o.Queue = orInt(o.Queue, max(100, 2*o.Batch))
	o.Breaker = orInt(o.Breaker, 10)
	o.Budget = orDuration(o.Budget, time.Minute)
	o.Pause = orDuration(o.Pause, 100*time.Millisecond)
	o.MaxPause = orDuration(o.MaxPause, 10*time.Second)
	o.Drain = orDuration(o.Drain, 10*time.Second)
	o.Stall = orDuration(o.Stall, 5*time.Minute)
	if o.Attempts < 0 || o.Batch < 0 || o.Queue < 0 || o.HoldKeys < 0 || o.Budget < 0 || o.Pause < 0 ||
		o.MaxPause < o.Pause || o.Drain < 0 || o.Stall < 0 {
		return o, errors.New("consumer: numbers and durations must not be negative, nor MaxPause less than Pause")
	}
	if o.Drain >= rebalanceTimeout {
		return o, errors.New("consumer: Drain must be less than 30s; then the group continues without this member")
	}
	if o.DeadLetterTopic == nil {
		o.DeadLetterTopic = func(topic string) string { return topic + ".DLT" }
	}
	if o.ID == nil {
		o.ID = HeaderID("id", "ce_id")
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

// backOff returns the pauses between the attempts for one record.
func (o *Options) backOff() backoff.ExponentialBackOff {
	b := backoff.ExponentialBackOff{
		InitialInterval: o.Pause, RandomizationFactor: 0.3, Multiplier: 2, MaxInterval: o.MaxPause,
	}
	b.Reset()
	return b
}
