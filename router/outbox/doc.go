// Package outbox is the router preset outbox: records built from the columns that the configuration names.
//
// # The record
//
//   - Topic: Config.Topic with the row's values in place of ${aggregate_type}, ${aggregate_id}, ${type} and
//     ${column:NAME}. The result must be a legal name that is not internal to Kafka; it is never changed to become one.
//     A NULL or empty value in a placeholder is refused.
//   - Key: the aggregate id as Postgres prints it, or the columns that Config.KeyColumns names. NULL is refused, since
//     records without a key are spread over the partitions and the order of the aggregate would be lost silently. The
//     empty string is a key like any other.
//   - Value: the payload as Postgres prints it, byte for byte. It is not parsed, so numbers keep their digits and
//     text that is not JSON passes. bytea is decoded to the bytes it represents. NULL is a tombstone.
//   - Timestamp: the timestamp column in milliseconds, rounded down. The commit time takes its place if the table has
//     no such column, or if the value is NULL, infinite, BC or before 1970, none of which Kafka can hold.
//   - Headers: id, type, position, then static headers, headers from columns, the members of the headers column in the
//     order Postgres prints them, and the format's own headers.
//
// This is FormatPayload. The other formats wrap the payload, see Envelope and CloudEvents; a NULL payload is a
// tombstone in each of them. Registry puts a frame in front of the payload.
//
// # Headers
//
// A NULL type gives a `type` header with a null value, an empty one an empty value, so the first three headers are
// always there. The headers column holds a JSON object, or NULL or JSON null for none. A member that is a string
// travels decoded, null as a null header value, anything else as its JSON text. A name that occurs twice (json keeps
// such, jsonb does not) gives two headers. The names id, type and position are the router's own and refused, as are
// empty names and names with control characters, more than MaxHeaders members and more than MaxHeaderBytes of
// names and values.
//
// # Rows that cannot be routed
//
// Route returns a *router.RowError for them, with a stable Reason. The policy (halt, skip, dead letter) is the caller's
// decision.
package outbox
