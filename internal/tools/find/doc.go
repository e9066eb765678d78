// Package find answers where an event is: in the table, in Kafka, among the dead letters, or nowhere. It only reads.
//
// The table is asked first (rows.go): the row gives the topic, the partition and the time from which Kafka is searched
// (search.go). What was found becomes a verdict in verdict.go, which is pure.
package find
