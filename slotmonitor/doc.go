// Package slotmonitor watches how much write-ahead log the logical slots of a Postgres server retain, by SQL over a
// connection of its own, so that it continues when the stream does not.
//
// The parts, from the server to the reader:
//
//  1. A query asks one question per tick; its answer is a Snapshot.
//  2. The history turns snapshots into Slots: sizes, rates, time to the limit, who retains the log.
//  3. Rules judge a Slot: a rule is a pure function over one Slot. The cause names the thing that the slot waits for.
//  4. internal/base/alert follows the findings from tick to tick and makes events of them. The monitor logs the events
//     and hands them on through Config.Notify. Metrics show the latest Slots to Prometheus.
//
// Only the monitor and its connection have clocks and sockets.
//
// Any role that may connect sees sizes and states. The age of a transaction is visible to members of
// pg_read_all_stats; for other roles, the age is counted from when the monitor first saw the transaction.
//
// The package makes no compatibility promise: its functions and types change as the program needs it.
package slotmonitor
