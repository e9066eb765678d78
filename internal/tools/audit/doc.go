// Package audit compares an outbox with the ledgers of its consumers: which events are published, which are handled,
// and how long that took. It reads two streams that Postgres orders by the event's id and merges them, so its memory
// does not grow with the number of events.
//
// The window ends some time ago (Options.Grace), so a row of it that a ledger lacks has waited for at least as long.
// Events that the merge misses are looked up by id without a window, so an event that was handled before or after the
// window is not missing.
package audit
