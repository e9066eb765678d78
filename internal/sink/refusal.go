package sink

import (
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// Reasons of a refusal.
const (
	TooLarge      = "too_large"      // larger than the topic's max.message.bytes, alone in its batch
	NoPartition   = "no_partition"   // for a partition that the topic does not have
	IllegalTopic  = "illegal_topic"  // for a topic that cannot be created under its name
	InvalidRecord = "invalid_record" // the topic's rules: no key on a compacted topic, a timestamp out of bounds, …
)

// RefusedError is the error of ProduceAt for a record that the topic cannot take, with nothing taken: the same record
// may be produced again, or another one with the same ticket. Only where Callbacks.Refused is set; otherwise the record
// waits for a larger limit, or for its partition.
type RefusedError struct {
	Topic  string
	Reason string // TooLarge, NoPartition or IllegalTopic

	// TooLarge
	Bytes    int      // of a batch with this record alone, compressed as it would be sent
	Limit    int      // the topic's max.message.bytes
	Commands []string // that raise it

	// NoPartition
	Partition  int32 // that the record names
	Partitions int   // that the topic has

	// IllegalTopic
	Why string // the brokers' words
}

func (e *RefusedError) Error() string {
	if e.Reason == IllegalTopic {
		return fmt.Sprintf("topic %q cannot be created under this name (%s)", e.Topic, e.Why)
	}
	if e.Reason == NoPartition {
		return fmt.Sprintf("the row is for partition %d, and topic %q has %d, numbered from 0", e.Partition, e.Topic,
			e.Partitions)
	}
	return fmt.Sprintf("a record of %d bytes is larger than topic %q allows (max.message.bytes %d)", e.Bytes, e.Topic,
		e.Limit)
}

// Refusal is a record that a broker has refused, alone, after it was taken. Nothing of its partition overtakes it while
// Callbacks.Refused is asked about it. The slices are the callee's.
type Refusal struct {
	Ticket    uint64
	Topic     string
	Partition int32
	Key       []byte
	Value     []byte
	Headers   []router.Header
	Timestamp int64
	Bytes     int    // of the batch, where it is TooLarge
	Limit     int    // the topic's max.message.bytes, 0 where it is not known
	Words     string // the broker's, printable and bounded; empty: it gave none
	Reason    string // TooLarge, NoPartition, IllegalTopic or InvalidRecord
}

// Record is the record that was refused. It shares the Refusal's memory.
func (r *Refusal) Record() *router.Record {
	return &router.Record{
		Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers,
		Timestamp: r.Timestamp,
	}
}

// Action is the treatment of a refused record.
type Action uint8

const (
	// Hold: the partition waits, Trouble says so, and the record is tried again every few seconds; if it is refused
	// again, Callbacks.Refused is asked again. It continues when the topic takes the record.
	Hold Action = iota
	// Drop: the session ends, and when the record is produced again its ticket is acknowledged.
	Drop
	// Replace: the session ends, and when the record is produced again Resolution.Record is in its place, with its
	// ticket, which is acknowledged when the replacement is in the log. With transactions it is part of the refused
	// record's transaction.
	Replace
)

// Resolution is the answer of Callbacks.Refused.
type Resolution struct {
	Action Action
	Record *router.Record // for Replace; not to be changed any more
}
