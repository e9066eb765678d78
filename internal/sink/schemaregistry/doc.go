// Package schemaregistry looks up the ids of schemas in a registry with Confluent's API: Confluent's own, Karapace,
// Apicurio's compatible API, Redpanda's. It reads, and registers nothing.
//
// A Registry keeps the answers in memory. A numbered version never changes; the latest one is asked for again in
// the background, while the id that is known goes on being used. Nothing waits for the registry except a row whose
// schema is not known.
package schemaregistry
