// Package conformance holds the product against real Debezium, record by record. All of it is tests.
//
// A case is a file in testdata/debezium: a connector's JSON as one posts it to Kafka Connect, a table, rows, and what
// Debezium wrote for each row, captured from a run of the real thing. The test migrates the JSON, reads the same rows
// from a real Postgres, routes them and compares topic, partition, key, value, headers and timestamp byte for byte.
// Where the product differs on purpose the case says so, with what it does instead; docs/debezium-differences.md
// explains each of these.
//
// `make conformance` captures again. It starts Debezium's connectors against the same database in one JVM
// (debezium/Capture.java) and needs Java 17 and Maven; the test itself needs neither.
package conformance
