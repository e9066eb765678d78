// Package debezium is the router preset debezium: records as the outbox event router of Debezium's PostgreSQL connector
// makes them, byte for byte. docs/debezium-differences.md lists the intended differences.
package debezium
