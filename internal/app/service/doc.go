// Package service is the composition root: it builds the processes that stay, from the configuration, and runs what
// belongs to them.
//
//   - [Run] relays rows, read from the write-ahead log (walservice.go) or by polling (pollingservice.go).
//   - [WatchSlots] and [WatchBacklog] monitor and relay nothing.
//   - [Check] looks at what Run would find, and [Look] and [LookPolling] ask a process that runs.
//
// Each process has the same things beside its work (process.go): a monitor, a sender of its alerts, the HTTP server,
// the page, the recorder of traces. The package knows no flags and prints nothing; what a process has to say goes to
// its log.
package service
