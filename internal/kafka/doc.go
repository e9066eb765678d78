// Package kafka is the producer: idempotent, pipelined, in order per partition, without a hole under any fault. It is
// built on the wire types of kafka-go's protocol package, with connections and a record-batch encoder of its own;
// kafka.Writer gives up on batches and goes on with the next, which is what a log of changes can least afford.
//
// # The caller's duties
//
//  1. Run must run for anything to be sent; it ends with its context.
//  2. Produce from one goroutine, in the order the records should have; records that need no order among each other may
//     come from several. The record may be reused when it returns.
//  3. Bound what is unacknowledged: the producer takes what it is given. Delivery.Bytes is the sum of Record.Size(),
//     to give back to the window.
//  4. Flush whenever nothing more is coming right now, and before waiting for anything (the socket, the window).
//     What was not flushed may wait for a full request.
//  5. Acked should return soon; it must not call Produce or Drain.
//  6. After Run has ended, whatever Acked has not reported is not known to be in Kafka: produce it again, with a new
//     Producer.
//
// # Design
//
// One lock guards all state. Produce encodes each record straight into the batch that the sender may take at any
// moment; an event loop would need a hand-over for each record, or a copy. Nothing slow happens under the lock:
// compression and checksums are the work of each connection's writer, Acked has a goroutine of its own, and the
// lock is taken once per record without contention, once per request, once per answer.
//
//	Produce ──▶ partition.open ──seal──▶ queued ──take──▶ inflight ──answer──▶ completed ──▶ Acked
//	                                       ▲                 │
//	                                       └────── rewind ───┘
//
// The files, in the order to read them: record.go, batch.go, chunk.go (encoding) · partition.go (the state machine) ·
// send.go (when to send what) · recovery.go, codes.go, split.go, refusal.go, resolve.go (when it fails) ·
// broker.go, conn.go, request.go (connections) · dial.go, versions.go, sasl.go (how one comes about) · control.go, metadata.go, create.go, identity.go,
// clock.go (what happens beside) ·
// transaction.go, coordinator.go, takeover.go, position.go (exactly-once) ·
// producer.go, place.go (the API).
//
// # Why nothing is lost, doubled or reordered
//
// Each batch gets (producer id, epoch, sequence) at its first send and keeps them, and its bytes, for every resend
// (KIP-98). The broker remembers the last five batches per partition and takes a repeat for what it is; so at
// most five fly, and a repeat is always safe, also when the first copy was appended and only its answer lost.
//
// A partition that meets an error drains: it sends nothing until every request in flight is answered or its
// connection is closed. Then it rewinds: everything unacknowledged is sent again, in sequence, the first batch alone
// (probing). There is no other recovery, no limit of attempts, and nothing is dropped: see codes.go for what an
// error code adds to it. A rewind never overtakes an older copy, for that copy is answered, or came over a
// closed connection and is refused behind newer sequences.
//
// # Transactions
//
// With Config.Transactions every batch is part of a Kafka transaction (KIP-98) that also commits the position of its
// last record, as the metadata of a group's offset. transaction.go says which records form one, coordinator.go takes it
// through its steps, takeover.go begins and recovers. A transaction is sealed at a Mark; its batches are reported to Acked
// only after EndTxn, and stay in memory until then, so one that is aborted is sent again from there. What would
// be an epoch bump without transactions, with repeats in the log, is such a redo, which nobody sees who reads with
// read_committed. A partition that cannot be written holds up everything, not only itself.
//
// # When the producer's state is lost
//
// Only when the broker has lost the producer's state (codes 45 and 59 with everything older acknowledged) the
// partition's sequence starts over with a new epoch; the others keep theirs. What was appended before without an answer is then appended again: the only
// duplicates a running producer makes, and it logs them.
package kafka
