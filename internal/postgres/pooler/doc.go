// Package pooler finds out whether a connection string leads to the server itself or to a pooler or proxy, and whether
// a replication connection gets through. A Route is what was seen of one host; its findings are pure. Probe opens the
// connections.
package pooler
