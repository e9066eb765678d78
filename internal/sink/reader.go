package sink

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// ErrNoTopic is the cause where a topic to read does not exist.
var ErrNoTopic = errors.New("the topic does not exist")

// Reader reads what was published, as a consumer sees it: nothing of transactions that are open or aborted. It changes
// nothing. It connects when it is used. A Reader is for one goroutine, but for Waits. Close it.
type Reader interface {
	// Topics lists the topics that exist, sorted.
	Topics(ctx context.Context) ([]string, error)

	// Spans returns what can be read of the topics right now, by topic and partition. A topic that does not exist is
	// ErrNoTopic.
	Spans(ctx context.Context, topics ...string) ([]Span, error)

	// Since raises From to the first message whose timestamp is not before t, in milliseconds since the Unix epoch; or
	// the time of its arrival, if the broker looks messages up by that. Messages after it may be older. Without such a
	// message the span becomes empty.
	Since(ctx context.Context, s Span, t int64) (Span, error)

	// Messages iterates over the span, in order. After an error the iteration ends. Messages that the broker removes
	// meanwhile, before they are read, are an error, too, unless Removed shows it.
	Messages(ctx context.Context, s Span) iter.Seq2[*Message, error]

	// Search iterates as Messages does, and may leave out messages that do not hold the bytes anywhere. What it gives
	// may be another message, so the caller compares. progress is called with the next offset now and then.
	Search(ctx context.Context, s Span, needle []byte, progress func(next int64)) iter.Seq2[*Message, error]

	// Compacted reports whether the broker keeps only the last message of each key of the topic, so that what is absent
	// may well have been there. known is false where the user may not ask.
	Compacted(ctx context.Context, topic string) (compacted, known bool, err error)

	// Retention returns how long the broker keeps the topic's messages, zero where the user may not ask.
	Retention(ctx context.Context, topic string) (Retention, error)

	// Removed returns the time before which the broker may have removed messages of the span's partition, by the first
	// message that is left. Without one it is now, however long the broker keeps messages: they can be removed by hand,
	// too. It is zero if nothing was removed. It is asked after the span was read.
	Removed(ctx context.Context, s Span) (time.Time, error)

	// Names are the broker's words for a text.
	Names() Names

	// Waits returns the wait of the Reader, nil for none. Any goroutine may ask.
	Waits() *Wait

	Close()
}

// OpenReader makes a reader. It connects to nothing.
type OpenReader func() (Reader, error)

// Names are the words of a broker.
type Names struct {
	Broker string                                                   // "Kafka has the record"
	Place  func(topic string, partition int32, offset int64) string // "topic t, partition 0, offset 4711"
}

// Retention is how long a broker keeps messages.
type Retention struct {
	Object string // whose setting it is: "topic t"

	Age       time.Duration // 0: for ever
	Bytes     int64         // the oldest are removed beyond; 0: no limit
	Messages  int64         // the same
	Partition bool          // Bytes is the limit of a partition
	Compacted bool          // of messages with one key, only the last is kept

	// Commands that end Age, Bytes, Messages and Compacted.
	KeepAge, KeepBytes, KeepMessages, KeepKeys string
}

// Span is the range [From, End) of offsets of a partition. Raise From to go on where one stopped. From is 0 if the
// broker has removed nothing yet.
type Span struct {
	Topic     string
	Partition int32 // 0 where the broker has none
	From, End int64
}

// Message is a record as it is read. It is valid until the next step of the iteration; Clone keeps it.
type Message struct {
	Topic      string
	Partition  int32
	Offset     int64
	Timestamp  int64  // milliseconds since the Unix epoch
	AppendTime bool   // it is when the broker appended the record
	Key, Value []byte // nil: null
	Headers    []router.Header
}

// Clone returns a copy that stays valid.
func (m *Message) Clone() *Message {
	c := *m
	c.Key, c.Value = slices.Clone(m.Key), slices.Clone(m.Value)
	c.Headers = slices.Clone(m.Headers)
	for i := range c.Headers {
		c.Headers[i].Value = slices.Clone(c.Headers[i].Value)
	}
	return &c
}

// Header returns the value of the first header of the name.
func (m *Message) Header(key string) ([]byte, bool) {
	for i := range m.Headers {
		if m.Headers[i].Key == key {
			return m.Headers[i].Value, true
		}
	}
	return nil, false
}

// Wait is an event that a Reader waits for.
type Wait struct {
	Object string
	Err    error // of the last attempt; nil during the first attempt
	Since  time.Time
}
