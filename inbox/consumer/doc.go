// Package consumer reads the relay's topics in a consumer group and gives each record to a handler, in the order of its
// partition. It repeats an attempt that fails until the record is handled or its budget is used up, and then writes the
// record to a dead-letter topic. It is the loop around package inbox:
//
//	in, err := inbox.New(pool, inbox.Options{Consumer: "billing"})
//	...
//	c, err := consumer.New(consumer.Options{
//		Brokers: []string{"127.0.0.1:9092"}, Group: "billing", Topics: []string{"order.events"},
//	}, consumer.InTx(in, func(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
//		return bill(ctx, tx, m.Value)
//	}))
//	...
//	err = c.Run(ctx) // until ctx ends
//
// # Consumer and group
//
// inbox.Options.Consumer names the ledger, and Options.Group is Kafka's consumer group. The ledger decides whether an
// event was handled; the group only decides where reading goes on. A new group with the old ledger reads everything
// again and handles nothing twice. A new ledger handles every event that the group delivers. Use one word for both,
// unless several groups, of several clusters for instance, share a ledger.
//
// # Order
//
// Each assigned partition has one goroutine. It begins a record when the record before it is handled or dead-lettered.
// The events of one aggregate have one key and so one partition, and are therefore handled in their order. Partitions
// are independent of each other. A dead letter breaks the order on purpose: the records after it are handled without
// it. A handler for which that matters checks versions in its own tables, or sets Options.HoldKeys: then the events of
// a key wait, as letters, for an open letter of the key.
//
// # Batches
//
// NewBatch gives its handler the records that wait in a partition together, in one transaction with BatchInTx. While
// the group keeps up, that is one record at a time; while it is behind, it is several times faster. After an error the
// records of the batch are handled one by one, so what happens to a record is the same as with New.
//
// # Offsets
//
// Offsets are committed at once, but at most ten times a second. An offset is committed after its record was handled,
// never before, and while its partition is the member's: the broker refuses the commits of an earlier generation of the
// group, and what could not be committed before a partition was given away is not committed later. When a partition is
// given away, or Run's context ends, a running handler has Options.Drain to finish. Then its context ends, nothing is
// committed for the record, and the next owner of the partition starts with it. A record that is delivered again is
// recognized by its id.
//
// A partition whose next offset no longer exists, because the outage was longer than the retention, ends Run with a
// *LostError. So does a log that was cut off before that offset. A Kafka client alone continues with the remaining
// records without an error.
//
// With each offset the group stores the id of its topic, as the offset's metadata. A topic that was deleted and made
// again has another id (brokers since 2.8): it is read from its beginning, which the log says, whatever the offset is.
//
// # Repeats
//
// After a crash the relay sends unacknowledged records again, as one contiguous part of a partition. Each repeat goes
// to the handler, and so to its ledger, which decides. For handlers without a ledger the consumer remembers the ids of
// the last few thousand records of each partition.
//
// Only an id proves a repeat. A comparison of the position header with the last position would need only one number per
// partition, but it would lose events: a dead letter that was corrected and published again, a repair from the table,
// and a slot that was re-created after a failover all bring lower positions with new events.
//
// # Null and empty
//
// A record with a null value is a tombstone; a record with an empty value is an event without a payload. In a Message a
// nil slice is null and an empty slice is empty, for the value, the key and the values of headers.
//
// # Topics written with exactly_once
//
// The records of aborted transactions are left out.
package consumer
