// Package avro encodes JSON documents by an Avro schema (Apache Avro 1.12, "Binary encoding"), straight from the text:
// no number passes through a float64 unless the schema says so, and encoding allocates nothing in the steady state.
package avro
