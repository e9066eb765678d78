// Package catalogue lists the events of the outbox tables from facts: their types, topics and schemas, as the latest
// rows become records, and the consumers that the broker knows. It changes nothing.
package catalogue
