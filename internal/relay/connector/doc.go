// Package connector joins the replication stream, the router, the tracker and the producer into one running relay.
//
// One goroutine, the reader, does all the work of a row: it receives the message, asks the tracker for the row's
// position and ticket, routes it, waits for room in the window and hands the record to the producer, which has encoded
// it when the call returns. Nothing per row crosses a channel. The producer's goroutine brings acknowledgements back;
// they move the tracker, and the stream's own clock carries the tracker's Confirmed to the server.
//
// Four rules keep promises N (no loss) and D (no duplicates in one life of the process):
//
//  1. A row that the tracker has handed out reaches the producer before the reader does anything else, or is taken
//     back. Otherwise the repeat after a reconnect would be taken for a row that the producer already has. The waits in
//     between (window, topic that does not take the row) end when the stream is broken: a slot that another instance
//     took has to be given up, however long Kafka takes no record.
//  2. A lost stream does not disturb tracker and producer. The next stream starts at Confirmed, and the tracker knows
//     which of the repeated rows the producer already has.
//  3. When the positions lose their meaning, or the slot was lost, the reader gives up the rows that Kafka has not
//     acknowledged and rewinds the tracker to the slot's own position. Acknowledgements of the session before do not
//     count.
//  4. A position counts in the log that it was taken from only. A stream that starts on the word of one has to show the
//     transaction there, before anything is confirmed on it.
//
// With exactly-once delivery the producer keeps the position up to which rows are committed in Kafka, and gives it back
// when it has begun: rows up to it are acknowledged without being produced. Kafka's transactions end where Postgres'
// transactions do, except that a transaction that does not fit into the window, waits at a topic that is missing, or is
// halted at a bad row, is committed in parts.
//
// # Several instances of one slot
//
// Whatever the instances do, the last record of a key in Kafka has to be its newest event. Postgres gives the slot to
// one session at a time, and Kafka takes records from the highest epoch of a transactional id that all instances of the
// slot share. These rules tie the two together:
//
//  1. Begin, which raises the epoch above all others, happens only after START_REPLICATION has succeeded. A waiting
//     instance raises no epoch.
//  2. After Begin, and before the first record, the server is asked whether the stream's session still holds the slot.
//     When it does, every other instance that gets the slot later raises the epoch after us. When it does not, the
//     epoch is never used. So among the instances that publish, the order of the epochs is the order in which they had
//     the slot.
//  3. Each stream that follows a loss begins again: the first of a process, one after another session held the slot or
//     moved it, one after a promotion, and one after Kafka has fenced us.
//  4. A stream that follows a mere interruption asks Kafka whether our epoch is still the highest, with that epoch, so
//     that the question itself cannot fence anything (Producer.Keep). Then nothing is given up and nothing repeated.
//  5. Nothing is confirmed before Begin or that question has an answer: the rows acknowledged to us may be followed in
//     Kafka by an earlier part of them, which another instance sent before it died. Then the slot stays where it is,
//     and all of it is sent again.
//  6. An instance that loses the slot, or learns from Kafka that it was fenced, gives up at once whatever is not
//     acknowledged. All of it comes after the slot's position, so the next holder sends it.
//
// The interleavings, and the rule that each relies on:
//
//   - A loses its session, B takes the slot, A still has a full window: A finds the slot held and gives up (6). A
//     record that it had on the wire is refused in each partition to which B has written, and otherwise lies in front
//     of the records that B will write: a rewind.
//   - A is frozen with records in hand and wakes after B took over: the same, by Kafka alone.
//   - A is interrupted, B takes the slot, publishes and dies without having moved it, A gets it back: Kafka answers
//     that B has begun, so A confirms nothing, gives up, rewinds and begins (4, 5, 3). Without the question B, if it
//     were only frozen, could wake with the higher epoch and write old events after A's.
//   - A is interrupted and no other instance had the slot: the epoch is still ours (4).
//   - A is frozen after START_REPLICATION and before Begin, B takes over and publishes, A wakes: A's Begin fences B,
//     but A publishes nothing, because its session does not hold the slot any more (2); the rows in A's socket are
//     old. B learns of it at its next question to the coordinator, gives up and begins again (6, 3). A does not do it
//     twice: its stream is dead, and another Begin needs another stream.
//   - A is frozen within Begin, or its request is delayed on the network: the same; an answer that no caller
//     waits for is not used.
//   - Three instances: nothing above depends on which of the others had the slot, or how many did.
//   - A slot that our own broken session still holds, until the server notices: it is not lost, we wait for it (4).
//   - Exactly once: a fenced instance can commit nothing. The next one skips rows up to the position that it reads
//     after its Begin, and so after the last commit of any other.
//   - A connector on a clone of the database, with the same Kafka: each fences the other while both hold their own
//     slot. The difference to all of the above is that our session still holds the slot when we are fenced, which
//     the server is asked then. An instance that was frozen within Begin causes this once; five times in a row need an
//     operator. A clone whose checkpoint, or log, Kafka does not know finds that out before it begins, and fences no
//     one.
//
// If the user has no right to the transactional id, none of this holds at the broker, and rule 6 is all there is.
package connector
