package telemetry

import (
	"errors"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/fault"
)

// Keys of log fields. Dashboards and alerts are built on them: add, don't rename.
const (
	KeyAddress     = "address"      // host:port of a listener or a peer
	KeyAt          = "at"           // LSN or position an error belongs to
	KeyBackoff     = "backoff"      // how long until the next attempt
	KeyBroker      = "broker"       // Kafka broker, host:port
	KeyBytes       = "bytes"        // a size in bytes
	KeyCause       = "error"        // the error's text
	KeyConfirmed   = "confirmed"    // LSN confirmed to the slot
	KeyDuration    = "duration"     // how long something took
	KeyEvent       = "event_id"     // id column of an outbox row
	KeyFault       = "fault"        // retry, operator, config or fatal
	KeyKey         = "key"          // configuration key
	KeyLSN         = "lsn"          // a position in the write-ahead log
	KeyNext        = "next"         // the next step for a person
	KeyObject      = "object"       // what failed: slot "x", topic "y"
	KeyPartition   = "partition"    // Kafka partition
	KeyPID         = "pid"          // a Postgres backend's process id
	KeyPosition    = "position"     // commit LSN and index within the transaction
	KeyPublication = "publication"  // publication name
	KeyReason      = "reason"       // why, one of a closed list of words
	KeyReceived    = "received"     // LSN up to which the stream was read
	KeyRecords     = "records"      // a number of Kafka records
	KeyServer      = "server"       // version of the Postgres server
	KeySide        = "side"         // postgres or kafka
	KeySignal      = "signal"       // signal the process received
	KeySlot        = "slot"         // replication slot name
	KeySQLState    = "sqlstate"     // Postgres error code
	KeySystem      = "system_id"    // Postgres system identifier
	KeyTable       = "table"        // schema-qualified table
	KeyTimeline    = "timeline"     // Postgres timeline
	KeyTopic       = "topic"        // Kafka topic
	KeyVersion     = "version"      // version of this program
	KeyWALStatus   = "wal_status"   // reserved, extended, unreserved or lost
	KeyRetained    = "retained"     // bytes of WAL the slot holds back
	KeyRows        = "rows"         // a number of outbox rows
	KeyTransaction = "transaction"  // a Postgres transaction id
	KeyWindowUsed  = "window_bytes" // bytes in flight
)

// ErrorFields takes an error apart into fields, so that the object and the position of a *fault.Error can be searched
// for rather than only read.
func ErrorFields(err error) []zap.Field {
	if err == nil {
		return nil
	}
	var f *fault.Error
	if !errors.As(err, &f) {
		return []zap.Field{zap.String(KeyCause, err.Error()), zap.String(KeyFault, fault.KindOf(err).String())}
	}
	fields := []zap.Field{zap.String(KeyFault, f.Kind.String()), zap.String(KeyObject, f.Object)}
	if f.At != "" {
		fields = append(fields, zap.String(KeyAt, f.At))
	}
	if f.Err != nil {
		fields = append(fields, zap.String(KeyCause, f.Err.Error()))
	}
	if f.Next != "" {
		fields = append(fields, zap.String(KeyNext, f.Next))
	}
	return fields
}
