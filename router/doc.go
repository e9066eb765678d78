// Package router defines the step from an outbox row to a Kafka record, and the types that both sides of it need: the
// Router interface, records, the reasons why a row cannot be routed, the columns a configuration needs.
//
// Each preset is an implementation in a package of its own: router/outbox builds our own records, router/debezium the
// records of Debezium's outbox event router, byte for byte. internal/app/routing builds the configured router.
//
// All of it is pure: values in, values out; no clocks, sockets or goroutines.
//
// The package is part of the connector. It makes no promise of compatibility to other modules.
package router
