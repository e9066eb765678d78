// Package slotmonitor watches how much write-ahead log the logical slots of a Postgres server hold back, by SQL over a
// connection of its own, so that it goes on when the stream does not.
//
// The parts, from the server to the reader:
//
//  1. query.go asks one question per tick; its answer is a Snapshot.
//  2. history.go turns snapshots into Slots: sizes, rates, time to the limit, who holds the log back.
//  3. rules.go judges a Slot: a rule is a pure function over one Slot. cause.go says what the slot waits for.
//  4. alerts.go follows the findings from tick to tick and makes events of them: begins, still fires, is over. log.go
//     writes them, Config.Notify hands them on; metrics.go shows the latest Slots to Prometheus.
//
// Only monitor.go and connection.go have clocks and sockets.
//
// Any role that may connect sees sizes and states. Whose transaction is how old is visible to members of
// pg_read_all_stats; without, the age is counted from when the monitor first saw it.
package slotmonitor
