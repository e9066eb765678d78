// Package schemacheck compares schemas that are not registered yet with a schema registry, and with the latest rows of
// the tables, for the CI of a service that writes events. It registers nothing.
package schemacheck
