// Package retry publishes dead letters: it makes the record that each should have been, and remembers the retry by
// marks in the dead-letter topic, so that no letter is published twice unasked.
package retry
