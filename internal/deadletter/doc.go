// Package deadletter is the format of the dead-letter topic: how a row that cannot be published becomes a record there,
// how such a record is read again, and how it becomes the intended record. It is pure: no connections, clocks or
// goroutines. docs/dead-letters.md describes the format to its readers.
//
// # Kinds of letters
//
// A row that cannot be routed is kept as a row: its payload is the letter's value, its other columns are in a header,
// so that a retry can correct a column and route the row as if it came from the log. If that does not fit into
// the dead-letter topic, a pointer says which row of which table it was. Earlier versions kept a record that Kafka
// refused as a record: its value is the letter's value, its headers are in headers with a prefix.
//
// # Bounds
//
// Everything besides payload and key has a bound, and a pointer takes a few kilobytes; a truncated value is marked as
// such. Slot, position and id identify a letter: a letter that is written twice after a crash is one letter. A
// consumer's letter that holds its key and comes after the mark of an earlier copy opens the letter again, because it
// holds the key.
package deadletter
