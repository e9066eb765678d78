// Package relay is the vocabulary that both sources of rows share, the reader of the log (internal/relay/connector) and
// the poller of the table (internal/relay/polling): states, counts, the policies for bad rows, and the part of /status
// about them. It is pure: values and functions of them.
package relay
