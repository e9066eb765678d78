// Package replication is the Postgres side: it keeps a logical replication stream open, decodes pgoutput, tells the
// server what is confirmed, and looks after slot and publication.
//
// What the rows mean and what may be confirmed is the caller's business. For rows to be neither lost nor blocked the
// caller has duties:
//
//  1. Confirm nothing but a Commit's EndLSN, once that transaction's rows and those of all before it are safe
//     elsewhere, or a keepalive's WALEnd while no transaction is open and nothing is outstanding. Never WALStart, never
//     a length added to anything, never a position from IDENTIFY_SYSTEM: one transaction's end is where the next one's
//     commit record begins, so a single byte too far loses that one for good.
//  2. Config.Confirmed must not fall while a stream lives. 0 says that nothing is known.
//  3. Set Config.OnIdentity and bring the tracker in line with what it is told. On the first stream: start at
//     ConfirmedFlush. On later ones: resume, transactions behind Confirmed come again. Where TimelineChanged is set:
//     rewind to ConfirmedFlush, Run refuses to go on otherwise. Where ConfirmedFlush lies ahead of Confirmed, another
//     instance held the slot meanwhile and confirmed that far: rewind to it as well.
//  4. Call Receive, Buffered and Finish from one goroutine. A Message and all it points to live until the next Receive,
//     except its *Relation, which never changes and may be kept.
//  5. Take as long as need be between two calls of Receive: status updates go on by themselves, and a full window
//     upstream is no reason for the server to hang up. What is not received stays in Postgres.
//  6. After an error of Receive return from consume, with that error or with a better one; Run reconnects when it
//     is a Retry. The stream must not be used, except for Finish after the end of Run's context.
//  7. A stream that breaks does not end the context that consume was given. A consumer that waits for something else
//     learns of the break at its next Receive, and nothing it had begun is torn in half.
//  8. To stop without repeats: Interrupt the stream, receive until no transaction is open, let what was produced be
//     acknowledged, move Confirmed, call Finish with a context of its own and return nil. The slot then stands exactly
//     where Confirmed stood. Stopping within a transaction repeats those of its rows that were produced.
//  9. A slot whose confirmed position does not move keeps WAL, and blocks a fast shutdown of Postgres for as long as
//     the stream stays open. A caller that is stuck for long should Finish and return a Retry error.
//
// The protocol is described in the Postgres documentation: 55.4 Streaming Replication Protocol (START_REPLICATION,
// XLogData, keepalive and status messages), 55.5 Logical Streaming Replication Protocol, 55.7 Message Formats,
// 55.9 Logical Replication Message Formats. Protocol version 1 is used: a transaction arrives as a whole after its commit, in
// commit order, so what was rolled back never shows and rows can be handed on as they come.
package replication
