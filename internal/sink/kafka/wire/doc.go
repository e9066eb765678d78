// Package wire speaks Kafka's protocol for the producer, the reader and the checks: how to connect to a broker and
// which versions to use, what error codes mean, how a topic is created, and the commands that an operator may need.
//
// A Cluster is where the brokers are and how to log in; Dial makes a Conn from it. Requests and answers are the types
// of kafka-go's protocol package, except OffsetFetch, whose newer versions that package does not know.
package wire
