// Package replication keeps a logical replication stream open: it connects, checks the slot, decodes pgoutput, confirms
// positions to the server, and stores the confirmed position in the checkpoint table. It belongs to cdc-outbox and
// makes no compatibility promise.
//
// The meaning of the rows, and the position that may be confirmed, are the caller's business. For rows to be neither
// lost nor blocked, the caller has duties:
//
//  1. Confirm only a Commit's EndLSN, once the rows of that transaction and of all transactions before it are safe
//     elsewhere, or a keepalive's WALEnd while no transaction is open and nothing is outstanding. Never confirm a
//     WALStart, a position plus a length, or a position from IDENTIFY_SYSTEM: the end of one transaction is where the
//     commit record of the next one begins, so a position one byte too far loses that transaction for good.
//  2. Config.Confirmed must not fall while a stream lives. 0 means that nothing is known.
//  3. Set Config.OnIdentity and bring the tracker in line with the Identity. On the first stream, start at
//     ConfirmedFlush. On later streams, resume; transactions after Confirmed are sent again. If TimelineChanged is set,
//     rewind to ConfirmedFlush; otherwise Run refuses to go on. If ConfirmedFlush is ahead of Confirmed, another
//     instance held the slot meanwhile and confirmed that far: rewind to ConfirmedFlush as well.
//  4. Call Receive and Finish from one goroutine. A Message and all it points to are valid until the next
//     Receive, except its *Relation, which never changes and may be kept.
//  5. Take as long as necessary between two calls of Receive. Status updates continue automatically, so a full window
//     upstream does not make the server hang up. Messages that are not received stay in Postgres.
//  6. After an error of Receive, return from consume with that error or with a better one; Run reconnects when the
//     error is a Retry. The stream must not be used any more, except for Finish after the end of Run's context.
//  7. A stream that breaks does not end the context that consume was given. A consumer that waits for something else
//     learns of the break at its next Receive, and nothing it had begun is interrupted.
//  8. To stop without repeats, Interrupt the stream, receive until no transaction is open, wait until the produced
//     records are acknowledged, move Confirmed, call Finish with a context of its own, and return nil. The slot is then
//     exactly at Confirmed. Stopping within a transaction repeats the rows of it that were produced.
//  9. A slot whose confirmed position does not move keeps WAL, and blocks a fast shutdown of Postgres for as long as
//     the stream stays open. A caller that is stuck for long should call Finish and return a Retry error.
//
// The protocol is described in the Postgres documentation: 55.4 Streaming Replication Protocol (START_REPLICATION,
// XLogData, keepalive and status messages), 55.5 Logical Streaming Replication Protocol, 55.7 Message Formats,
// 55.9 Logical Replication Message Formats. Protocol version 1 is used: a transaction arrives as a whole after its
// commit, in commit order, so a transaction that was rolled back never shows, and rows can be passed on as they arrive.
package replication
