// Package offsets decides how far the replication slot may move: over everything Kafka has acknowledged and nothing
// else.
//
// It is pure: no sockets, no clocks, no goroutines. Positions are values, Tracker is arithmetic under a lock, and
// Window is the one place that waits.
//
// # What "confirmed" means
//
// Confirmed is the end LSN of the last transaction such that it and all before it are received to their Commit message
// and acknowledged to their last row; or the WAL end of a keepalive that came while no transaction was open or
// outstanding. Postgres restarts a stream from such a position by skipping each transaction whose commit record lies
// below it (Postgres docs, "Streaming Replication Protocol", START_REPLICATION SLOT LOGICAL; in the source,
// SnapBuildXactNeedsSkip), and a commit's end LSN is where the next commit record may start. So a position one byte too
// far loses a transaction without a trace, which is why neither the end of a row's message nor "the last byte plus
// one" will do.
//
// # Duties of the caller
//
//  1. Give NewTracker and Rewind the slot's own confirmed_flush_lsn, never 0, and never the WAL end that
//     IDENTIFY_SYSTEM or a keepalive reports: all below the first value counts as acknowledged.
//  2. Hand over the stream's messages in the order received, from one goroutine: Begin (final LSN), Add for each row,
//     Commit (end LSN), Observe for each keepalive. Call Add for a row before producing it, and for the same rows on
//     every delivery: a row that policy drops or diverts is still counted and its ticket acknowledged once it is dealt
//     with, otherwise the indexes of the rows after it would depend on the configuration.
//  3. Ack each fresh ticket exactly once, after all in-sync replicas have the record, never on an error. Do not produce
//     a row that is not fresh, and do not Ack it.
//  4. Report Confirmed, and nothing else, as the flush and apply position of every status update, as often as asked;
//     never 0. The write position may be the received position. A keepalive that comes while something is outstanding
//     is not remembered, and once the write position has reached its WAL end Postgres sends the next one only after
//     half of wal_sender_timeout (never, if that is 0): when the last ack has come and Confirmed is still lower than
//     the received position, ask for a keepalive (reply requested).
//  5. When the stream breaks, call Resume after its last message and before the first of the next, and start the next
//     at Confirmed, read when the old one is over. Acks may arrive all the while. A fresh row must reach the producer
//     even when the stream breaks in between, or be taken back: after Resume it is not fresh.
//  6. Keep the tracker for as long as the log has the same system identifier and timeline. When either changes, close
//     the stream, let the producer drain or drop its records, and Rewind.
//  7. Treat any error as the end of the process' right to move the slot: stop, and say so. The state is unchanged by a
//     failed call, but going on would be a guess.
//  8. Bound the records in flight with Window: acquire before producing, release when acknowledged. The tracker's
//     memory is then bounded too, by one entry for each transaction with an unacknowledged row. The number of rows that
//     a crash repeats is not bounded: after one row that Kafka does not take, others go on. Waiting before Begin while
//     Unconfirmed is too high bounds that as well; waiting inside a transaction could wait for its own Commit.
package offsets
