// Package rabbitmq publishes to exchanges of RabbitMQ, with publisher confirms.
//
// RabbitMQ confirms messages in any order, and can refuse one message (basic.nack) and take the next
// (https://www.rabbitmq.com/docs/confirms, "Ordering Considerations for Publisher Confirms"). So a lane has one message
// in flight, and the throughput comes from many lanes (see internal/sink/lanes).
//
// Every message is mandatory: one that no queue takes comes back, before it is confirmed, and is sent again later.
//
// A connection that is lost may have messages in its buffers which the server reads later than the messages of the
// next connection. To keep them apart, a connection first declares an exclusive queue named after the owner: the server
// lets it have the queue only after the earlier connection has ended. The queue also keeps two instances apart, as long
// as the server keeps the connection.
package rabbitmq
