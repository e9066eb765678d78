package kafka

import "github.com/cdc-outbox/cdc-outbox/internal/sink"

// Promises lists the promises of a producer with an owner.
func Promises(exactlyOnce bool) sink.Promises {
	broker := "Kafka, at_least_once"
	repeats := "After a crash, the events of the last moments, about 100 ms, in their order. None after a graceful " +
		"stop, or if only connections broke."
	if exactlyOnce {
		broker = "Kafka, exactly_once"
		repeats = "None, for consumers with isolation.level=read_committed."
	}
	return sink.Promises{
		{Of: sink.PromiseBroker, Text: broker},
		{Of: sink.PromiseOrder, Text: "The events of a key are in the order of their commits, until partitions are " +
			"added to its topic."},
		{Of: sink.PromiseRepeats, Text: repeats},
		{Of: sink.PromiseInstances, Text: "One works, the others wait. Kafka refuses what an instance sends that was " +
			"frozen and replaced."},
		{Of: sink.PromiseReading, Text: "find, repair, replay and dead-letter read the topics."},
		{Of: sink.PromiseSize, Text: "A record is at most as large as max.message.bytes of its topic."},
	}
}
