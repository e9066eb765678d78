// Package pgoutput decodes the messages of Postgres' pgoutput plugin, protocol version 1 (Postgres docs 55.9, "Logical
// Replication Message Formats"), and holds the types for the rows in them. It opens no connection and imports nothing
// but the standard library and the LSN type, so that whatever handles rows can import it.
package pgoutput
