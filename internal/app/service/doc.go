// Package service is the composition root: it builds the processes that stay, from the configuration, and runs their
// parts.
//
//   - [Run] relays rows, read from the write-ahead log or by polling.
//   - [WatchSlots] and [WatchBacklog] monitor and relay nothing.
//   - [Check] checks the systems that Run would find, and [Look] and [LookPolling] ask a process that runs.
//
// Each process has the same parts beside its work: a monitor, a sender of its alerts, the HTTP server,
// the page, the recorder of traces. The package knows no flags and prints nothing; a process writes to its log.
package service
