package rabbitmq

import "github.com/cdc-outbox/cdc-outbox/internal/sink"

// Promises lists the promises of the connector.
func Promises(lock bool) sink.Promises {
	order := "The events of a key are in the order of their commits in each queue that takes all of them. Queues " +
		"with several consumers hand them out in any order."
	instances := "One works, the others wait. A frozen one that was replaced may still publish what it had in hand."
	if !lock {
		order += " What was in transit on a lost connection may come after its repeat, and after newer events."
	} else {
		instances = "One works, the others wait. A frozen one publishes no more once the server has closed its " +
			"connection, after two heartbeats, and its successor waits for that."
	}
	return sink.Promises{
		{Of: sink.PromiseBroker, Text: "RabbitMQ, at_least_once"},
		{Of: sink.PromiseOrder, Text: order},
		{Of: sink.PromiseRepeats, Text: "After a crash, a lost connection, or a refusal by one of several queues: " +
			"the events that were not confirmed, and after a crash the events of the last 100 ms."},
		{Of: sink.PromiseInstances, Text: instances},
		{Of: sink.PromiseReading, Text: "Nothing: reading a queue would take its messages away."},
		{Of: sink.PromiseSize, Text: "max_message_size of the servers; 255 bytes of a routing key; headers within " +
			"frame_max."},
	}
}
