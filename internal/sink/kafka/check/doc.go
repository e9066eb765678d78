// Package check looks at a Kafka cluster for `cdc-outbox check` and setup: whether its brokers can be reached, whether
// topics exist and may be written to, and whether exactly-once delivery would be allowed. It changes nothing.
package check
