// Package session holds the run-time parameters that the relay's sessions set: those on which the text of values
// depends, and those that the stream relies on.
package session
