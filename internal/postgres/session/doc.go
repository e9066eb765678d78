// Package session holds the run-time parameters that the relay's sessions set: the parameters on which the text of
// values depends, and the parameters that the stream relies on.
package session
