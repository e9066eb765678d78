// Package kafka is the producer. It is idempotent and pipelined, keeps the order of each partition, and leaves no gap
// under any fault. It is built on the request types of kafka-go's protocol package, with connections and a record-batch
// encoder of its own. kafka.Writer was not an option: it gives up on a batch and continues with the next one, which a
// log of changes cannot afford.
//
// # The caller's duties
//
//  1. Run must run for anything to be sent. It ends with its context.
//  2. Produce records from one goroutine, in the order that they should have in the log. Records that need no order
//     among each other may come from several goroutines. The record may be reused when Produce returns.
//  3. Bound the unacknowledged records: the producer takes every record it is given. Delivery.Bytes is the sum of
//     Record.Size() over the delivered records, to be given back to the window.
//  4. Flush whenever no more records are coming right now, and before waiting for anything (the socket, the window).
//     Records that were not flushed may wait for a full request.
//  5. Acked should return soon. It must not call Produce or Drain.
//  6. A session ends with ErrFenced or ErrSessionOver. Abandon, Begin if there is an owner, and produce again the
//     records that were not acknowledged: see sessionend.go.
//  7. After Run has ended, records that were not reported to Acked are not known to be in Kafka. Produce them again,
//     with a new Producer.
//
// # Design
//
// One lock guards all state. Produce encodes each record straight into the batch that the sender may take at any
// moment; an event loop would need a hand-over for each record. Where thousands of partitions are in use, records
// gather in the stage first, which the lock hides. Nothing slow happens under the lock: compression and checksums are
// the work of each connection's writer, and Acked has a goroutine of its own. The lock is taken once per record without
// contention, once per request, once per answer.
//
//	Produce ──▶ partition.open ──seal──▶ queued ──take──▶ inflight ──answer──▶ completed ──▶ Acked
//	                                       ▲                 │
//	                                       └────── rewind ───┘
//
// # Why nothing is lost, duplicated or reordered
//
// Each batch gets (producer id, epoch, sequence) at its first send and keeps them for every resend, and its records too
// (KIP-98); only timestamps may change. The broker remembers the last five batches per partition and recognizes a
// repeat by that place. So at most five batches are in flight, and a repeat is always safe, even if the first copy was
// appended and only its answer was lost.
//
// A partition that meets an error drains: it sends nothing until every request in flight is answered or its connection
// is closed. Then it rewinds: everything unacknowledged is sent again, in sequence, the first batch alone (probing).
// There is no limit of attempts, and nothing is dropped; package wire says what an error code adds to it. A rewind
// never overtakes an older copy. Either that copy is answered, or it came over a connection that is closed, and the
// broker refuses it because it has seen newer sequences.
//
// # When the same bytes cannot heal it
//
// The session ends, see sessionend.go. The broker has lost the sequence (codes 45 and 59 with everything older
// acknowledged), a refused record is to be left out, a transaction has timed out, a topic was made again with fewer
// partitions. The caller gives up what is not acknowledged and reads it again from its source, under a new epoch. So no
// record is ever numbered twice within a session, or moved to another partition. What was appended without an answer is
// then appended again, but for transactions. These are the only duplicates that a producer makes, and it logs them.
//
// # Transactions
//
// With Config.Transactions every batch is part of a Kafka transaction (KIP-98). The transaction also commits the
// position of its last record, as the metadata of a group's offset. A transaction is sealed at a Mark. Its batches are
// reported to Acked only after EndTxn. Begin aborts an open transaction, or waits for the end of one that is being
// ended, and reads the position after it, so that what was committed is known, whatever became of the answers. A
// transaction one of whose answers was lost is followed by a new epoch, so that nothing of it that arrives late acts on
// the next one. A partition that cannot be written delays everything, not only itself.
package kafka
