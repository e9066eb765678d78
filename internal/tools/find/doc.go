// Package find answers where an event is: in the table, in Kafka, among the dead letters, or nowhere. It only reads.
//
// The table is asked first: the row gives the topic, the partition and the time from which Kafka is searched. The
// findings become a verdict, by a pure function.
package find
