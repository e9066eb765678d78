package nats

import "github.com/cdc-outbox/cdc-outbox/internal/sink"

// Promises lists the promises of the connector, which is the only writer of its stream.
func Promises(exactlyOnce bool) sink.Promises {
	broker := "NATS JetStream, at_least_once"
	repeats := "None, as long as the stream keeps its last message. If it was removed, the events of the moments " +
		"before the last stop."
	if exactlyOnce {
		broker = "NATS JetStream, exactly_once"
		repeats = "None. Streams that remove a message once it is consumed are refused."
	}
	return sink.Promises{
		{Of: sink.PromiseBroker, Text: broker},
		{Of: sink.PromiseOrder, Text: "The stream has the order of the commits, over all subjects."},
		{Of: sink.PromiseRepeats, Text: repeats},
		{Of: sink.PromiseInstances, Text: "One works, the others wait. JetStream refuses what an instance sends that " +
			"was frozen and replaced."},
		{Of: sink.PromiseReading, Text: "By find, repair (which publishes nothing) and dead-letter list, " +
			"show and export, if the retention is limits. replay and dead-letter retry need Kafka."},
		{Of: sink.PromiseSize, Text: "max_payload of the servers and max_msg_size of the stream; 63 KB of headers."},
	}
}
