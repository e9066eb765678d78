// Package logkey is the catalogue of the keys of log fields.
package logkey

// Dashboards and alerts are built on these keys: add keys, do not rename them.
const (
	Address           = "address"            // host:port of a listener or a peer
	At                = "at"                 // LSN or position an error belongs to
	Attempt           = "attempt"            // which attempt, from 0
	Batches           = "batches"            // a number of record batches
	Before            = "before"             // a number before a change
	Broker            = "broker"             // Kafka broker, host:port
	Bytes             = "bytes"              // a size in bytes
	ByTopic           = "by_topic"           // topic of a replacement
	Cause             = "error"              // the error's text
	Commands          = "commands"           // what to paste for the next step
	Confirmed         = "confirmed"          // LSN confirmed to the slot
	Duration          = "duration"           // how long something took
	Epoch             = "epoch"              // of a Kafka producer
	Event             = "event_id"           // id column of an outbox row
	Fault             = "fault"              // retry, operator, config or fatal
	Lasted            = "lasted"             // how long a trouble lasted
	LeftBy            = "left_by"            // instance that left a position
	Limit             = "limit"              // a limit in bytes
	LSN               = "lsn"                // a position in the write-ahead log
	Next              = "next"               // the next step for a person
	Node              = "node"               // Kafka broker, by its id
	Now               = "now"                // a number after a change
	Object            = "object"             // what failed: slot "x", topic "y"
	Partition         = "partition"          // Kafka partition
	Partitions        = "partitions"         // a number of partitions
	Position          = "position"           // commit LSN and index within the transaction
	ProducerID        = "producer_id"        // of a Kafka producer
	Publication       = "publication"        // publication name
	Reason            = "reason"             // why, one of a closed list of words
	Records           = "records"            // a number of Kafka records
	Remedy            = "remedy"             // the next step for an operator
	ReplicationFactor = "replication_factor" // of a topic
	RequestsInFlight  = "requests_in_flight" // requests without an answer
	Retained          = "retained"           // bytes of WAL the slot holds back
	Rows              = "rows"               // a number of outbox rows
	Sequence          = "sequence"           // of a batch in its partition
	Slot              = "slot"               // replication slot name
	SQLState          = "sqlstate"           // Postgres error code
	Table             = "table"              // schema-qualified table
	Ticket            = "ticket"             // of a record in flight
	Timeline          = "timeline"           // Postgres timeline
	Topic             = "topic"              // Kafka topic
	TransactionalID   = "transactional_id"   // of a Kafka producer
	Trouble           = "trouble"            // kind of what the producer waits for
	Version           = "version"            // version of this program
	WALStatus         = "wal_status"         // reserved, extended, unreserved or lost
)
