// Package router turns an outbox row into a Kafka record. It is pure: values in, values out.
package router
