// Package consumer reads the relay's topics in a consumer group and gives each record to a handler, in the order of its partition, again and again
// until it is handled or the budget is used up, and then puts it aside on a dead-letter topic. It is the loop that package inbox needs around it:
//
//	in, err := inbox.New(pool, inbox.Options{Consumer: "billing"})
//	...
//	c, err := consumer.New(consumer.Options{
//		Brokers: []string{"127.0.0.1:9092"}, Group: "billing", Topics: []string{"order.events"}, Healthy: in.Ping,
//	}, consumer.InTx(in, func(ctx context.Context, tx pgx.Tx, m consumer.Message) error {
//		return bill(ctx, tx, m.Value)
//	}))
//	...
//	err = c.Run(ctx) // until ctx ends
//
// # Order
//
// One goroutine per assigned partition. A record is begun when the one before it is handled or put aside, so the events of one aggregate, which
// have one key and so one partition, are handled in their order; partitions go on independently of each other. A dead letter breaks
// the order on purpose: what follows it is handled without it. A handler to whom that matters looks at the version in its own tables.
//
// # Offsets
//
// An offset is committed after its record was handled, never before, and by the generation of the group that the partition was
// assigned in: the broker refuses those of a generation that is over. When the group is rebalanced or Run's context ends, a
// handler at work has Options.Drain to finish; then its context ends, nothing of the record is committed, and the next owner of the partition starts with it. What is
// delivered again is recognised by its id.
//
// A partition whose next offset is no longer there (retention was shorter than the outage) ends Run with a *LostError. kafka-go's Reader on its own would go on with
// what is left and say nothing.
//
// # Repeats
//
// After a crash the relay sends what was in flight again: a contiguous rewind of a partition. The ids of the last few thousand handled records of each partition
// are remembered, so that most of a rewind costs no transaction. Only an id proves a repeat. The position header looks tempting, as one number
// per partition would do: drop what isn't greater than the last. It would lose events, since a dead letter that was
// corrected and published again, a repair from the table, and a slot made anew after a failover all bring positions that are lower and yet new.
//
// # Topics written with exactly_once
//
// kafka-go returns the records of aborted transactions also to those who ask for read_committed, and control records (issue 1332 there). Control records
// are left out here. An aborted record is handled as it comes: its row is committed in Postgres, so the relay sends it again with the same id, and
// the repeat is absorbed. There is one difference to a consumer that filters: if between abort and repeat somebody made the relay skip the row or
// put it aside, the event was handled here all the same. Where that matters, read with a client that filters and call Inbox.Handle.
package consumer
