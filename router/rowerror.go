package router

import (
	"fmt"
	"strconv"
	"strings"
)

// Reason says in one stable word why a row cannot be routed. It serves as a metric label.
type Reason string

const (
	MissingColumn   Reason = "missing_column"    // the table lacks a column the configuration names
	MalformedRow    Reason = "malformed_row"     // fewer or more values than the relation has columns
	UnchangedValue  Reason = "unchanged_value"   // a TOASTed value that the server did not send
	BinaryValue     Reason = "binary_value"      // sent in binary format, which for this type is not the text
	NullID          Reason = "null_id"           // the event id is NULL: consumers could not tell a repeat
	NullKey         Reason = "null_key"          // the aggregate id is NULL: order per aggregate would be lost
	Unroutable      Reason = "unroutable"        // a column the topic is built from is NULL or empty
	IllegalTopic    Reason = "illegal_topic"     // Kafka refuses such a topic name, or the topic is internal
	BadBytea        Reason = "bad_bytea"         // bytea text that is not in hex format
	BadTimestamp    Reason = "bad_timestamp"     // the timestamp column holds something else
	BadHeaders      Reason = "bad_headers"       // the headers column is not a JSON object, or a name is illegal
	ReservedHeader  Reason = "reserved_header"   // the headers column uses a name of the router's own headers
	HeadersTooLarge Reason = "headers_too_large" // more than MaxHeaders or MaxHeaderBytes
	// the record is larger than its topic takes, which Kafka says and Route does not, or the row is larger than
	// window.row
	TooLarge Reason = "too_large"
	// the row names a partition that its topic does not have; Route never says so, Kafka does
	NoPartition Reason = "no_partition"
	// the topic's own rules refuse the record; Route never says so, Kafka does
	InvalidRecord    Reason = "invalid_record"
	BadMessage       Reason = "bad_message"       // a logical message that is not as docs/messages.md describes
	NotTransactional Reason = "not_transactional" // a logical message that belongs to no transaction
	BadValue         Reason = "bad_value"         // a value that cannot be converted as the configuration asks
	UnknownSchema    Reason = "unknown_schema"    // the schema registry has no such subject, or no such version of it
	// the payload is not a document of its schema
	PayloadDoesNotFit Reason = "payload_does_not_fit"
)

// Reasons lists them all, for metrics that have to exist before the first row fails.
func Reasons() []Reason {
	return []Reason{
		MissingColumn, MalformedRow, UnchangedValue, BinaryValue, NullID, NullKey, Unroutable, IllegalTopic, BadBytea,
		BadTimestamp, BadHeaders, ReservedHeader, HeadersTooLarge, TooLarge, NoPartition, InvalidRecord, BadValue,
		BadMessage, NotTransactional, UnknownSchema, PayloadDoesNotFit,
	}
}

// RowError is a row that cannot be routed. It holds no payload, key or header values, so it may be logged and shown.
type RowError struct {
	Reason  Reason
	EventID string // the id column's text, cut at 64 bytes; empty if it is NULL or missing
	Table   string // schema.table
	Column  string // the column at fault; empty if it is not one column
	Detail  string // the cause, a clause without a full stop
	Remedy  string // the next step for a person, a full sentence
}

// Error names the table, the event and the column, then the cause. The remedy is left to the caller.
func (e *RowError) Error() string {
	var b strings.Builder
	b.WriteString("table ")
	b.WriteString(e.Table)
	if e.EventID != "" {
		b.WriteString(", event ")
		b.WriteString(strconv.Quote(e.EventID))
	}
	if e.Column != "" {
		b.WriteString(", column ")
		b.WriteString(strconv.Quote(e.Column))
	}
	b.WriteString(": ")
	b.WriteString(e.Detail)
	b.WriteString(" (")
	b.WriteString(string(e.Reason))
	b.WriteString(")")
	return b.String()
}

// RefuseLong returns the error for a value that was not received, because its row is longer than window.row.
func RefuseLong(table string, bytes uint32) *RowError {
	return &RowError{
		Reason: TooLarge, Table: table,
		Detail: fmt.Sprintf("a value of %d bytes was not received, because its row is longer than window.row", bytes),
		Remedy: "To publish such rows, raise window.row, and give the process four times as much memory.",
	}
}
