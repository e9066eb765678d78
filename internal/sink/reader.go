package sink

import (
	"errors"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// ErrNoTopic is the cause where a topic to read does not exist.
var ErrNoTopic = errors.New("the topic does not exist")

// Span is the range [From, End) of offsets of a partition. Raise From to go on where one stopped.
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
