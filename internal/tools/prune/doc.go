// Package prune deletes rows of the outbox that are old and that Kafka is certain to have: one by one (rows.go), or
// whole partitions (partitions.go), archived before if wanted. How certain it is, internal/postgres/outboxtable
// decides.
package prune
