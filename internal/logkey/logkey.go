// Package logkey is the catalogue of the keys of log fields.
package logkey

// Dashboards and alerts are built on these keys: add keys, do not rename them.
const (
	Address     = "address"     // host:port of a listener or a peer
	At          = "at"          // LSN or position an error belongs to
	Broker      = "broker"      // Kafka broker, host:port
	Bytes       = "bytes"       // a size in bytes
	Cause       = "error"       // the error's text
	Confirmed   = "confirmed"   // LSN confirmed to the slot
	Duration    = "duration"    // how long something took
	Event       = "event_id"    // id column of an outbox row
	Fault       = "fault"       // retry, operator, config or fatal
	LSN         = "lsn"         // a position in the write-ahead log
	Next        = "next"        // the next step for a person
	Object      = "object"      // what failed: slot "x", topic "y"
	Partition   = "partition"   // Kafka partition
	Position    = "position"    // commit LSN and index within the transaction
	Publication = "publication" // publication name
	Reason      = "reason"      // why, one of a closed list of words
	Records     = "records"     // a number of Kafka records
	Retained    = "retained"    // bytes of WAL the slot holds back
	Rows        = "rows"        // a number of outbox rows
	SQLState    = "sqlstate"    // Postgres error code
	Slot        = "slot"        // replication slot name
	Table       = "table"       // schema-qualified table
	Timeline    = "timeline"    // Postgres timeline
	Topic       = "topic"       // Kafka topic
	Version     = "version"     // version of this program
	WALStatus   = "wal_status"  // reserved, extended, unreserved or lost
)
