package sink

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Reasons of a refusal.
const (
	TooLarge      = "too_large"      // larger than the topic allows, alone in its batch
	NoPartition   = "no_partition"   // for a partition that the topic does not have
	IllegalTopic  = "illegal_topic"  // for a topic that cannot be created under its name
	InvalidRecord = "invalid_record" // the topic's rules: no key on a compacted topic, a timestamp out of bounds, …
)

// RefusedError is the error of ProduceAt for a record that the topic cannot take, with nothing taken: the same record
// may be produced again, or another one with the same ticket. A record that a broker refuses after it was taken ends
// the session, and is refused when it is produced again.
type RefusedError struct {
	Topic  string
	Reason string // TooLarge, NoPartition, IllegalTopic or InvalidRecord

	// TooLarge
	Bytes   int    // of a batch with this record alone, compressed as it would be sent
	Limit   int    // the topic's max.message.bytes, or Setting
	Setting string // the limit's name where it is not the topic's max.message.bytes

	// NoPartition
	Partition  int32 // that the record names
	Partitions int   // that the topic has

	// IllegalTopic
	Why string // the brokers' words

	// InvalidRecord
	Sentence string // what the topic refuses, with the broker's words

	// TooLarge and InvalidRecord: what makes the topic take it
	Remedy fault.Remedy
}

func (e *RefusedError) Error() string {
	if e.Reason == InvalidRecord {
		return fmt.Sprintf("topic %q refuses the record: %s", e.Topic, strings.TrimSuffix(e.Sentence, "."))
	}
	if e.Reason == IllegalTopic {
		return fmt.Sprintf("topic %q cannot be created under this name (%s)", e.Topic, e.Why)
	}
	if e.Reason == NoPartition {
		return fmt.Sprintf("the row is for partition %d, and topic %q has %d, numbered from 0", e.Partition, e.Topic,
			e.Partitions)
	}
	return fmt.Sprintf("a record of %d bytes is larger than topic %q allows (%s %d)", e.Bytes, e.Topic,
		cmp.Or(e.Setting, "max.message.bytes"), e.Limit)
}
