// Package connect holds as much of Kafka Connect's data model as the records of a Debezium connector need: schemas,
// values, and the converters that make bytes of them (StringConverter, JsonConverter, SimpleHeaderConverter), byte for
// byte.
package connect
