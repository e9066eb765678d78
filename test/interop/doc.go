// Package interop reads what the connector has published with clients of other people, and compares what each of them
// sees, byte for byte, with the table and with each other. It covers each codec and both deliveries, with a connector
// that is killed twice meanwhile. Java's own producer must choose the same partitions. SDKs read the CloudEvents and
// the registry's frame. Libraries write their own outbox tables, which the connector reads. And it runs the consumers
// of examples/consumers, which keep the ledger of package inbox in other languages.
//
//	make interop KAFKA=2.8
//
// It needs a JDK, Maven, Python 3 with venv and pip, and Node with npm. The clients are fetched from their registries
// once and stay in the cache.
package interop
