// Package e2e holds the connector to its promises from outside: the built binary between a real Postgres and a real
// Kafka, with faults in between and the oracle as judge.
//
//	go test -tags e2e -parallel 3 ./test/e2e/
//
// A test that does harm to the shared broker, or measures, runs alone. The others mostly wait and run afterwards, three
// at a time; tests with a cluster of three brokers wait for each other, so they are far apart in the order of the
// files.
//
// CDC_OUTBOX_TEST_SOAK=1 tries each fault as often and as long as it was promised (make soak),
// CDC_OUTBOX_TEST_KAFKA=3.9 has everything run on that version, CDC_OUTBOX_TEST_BINARY=<path> has another binary
// judged. A failed run prints its seed; CDC_OUTBOX_TEST_SEED=<seed> draws the same transactions and pauses again.
package e2e
