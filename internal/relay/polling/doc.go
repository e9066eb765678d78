// Package polling relays the outbox by asking the table, for databases without logical replication. It shares router,
// producer, metrics and dead letters with the relay that reads the log, and has the weaker promises that a table can
// give.
//
// # Lanes
//
// Every row belongs to one of 64 lanes, by a hash of the column that its record's key begins with. A worker claims
// a lane, never a row: rows that are locked one by one with SKIP LOCKED let a later row of an aggregate pass an
// earlier one that another worker holds. The claim is an advisory lock of the transaction. Unlike a row of a table that
// is locked FOR UPDATE it takes no transaction id and writes nothing, so while a worker waits for Kafka its transaction
// holds back neither VACUUM nor a slot; it works through a transaction pooler, and it ends with the session.
//
//	BEGIN; which lanes have rows; try to lock some of them
//	SELECT the lanes' unpublished rows, by sequence   -- a statement of its own: see rule 1
//	produce, wait for the acknowledgements            -- every few seconds: mark the acknowledged rows, claim again
//	                                                     while the session itself keeps the locks
//	UPDATE … SET published_at; COMMIT
//
// # Why nothing is lost or reordered
//
//  1. Rows are read by a statement that begins after the lock was acquired. In READ COMMITTED the statement sees the
//     marks of the lane's previous holder. A statement that took the lock itself would have a snapshot from before.
//  2. There is no cursor. Unpublished rows are found by published_at IS NULL, from the beginning of the lane each
//     time, so a transaction that commits late is found whatever its sequence or time.
//  3. A row is marked only when Kafka has acknowledged its record, and only the very version that was read, by number
//     and address. Marking needs no claim: the record is in Kafka.
//  4. A lane's rows go to the producer in the order of their sequence, and their reader begins at the first row that is
//     not marked. Two holders at once, which a frozen process or a lost connection leads to, thus write two copies of
//     the same series: first appearances stay in order, later ones are repeats.
//  5. Within a process a lane that is in flight stays its worker's, also when the claim's connection is lost.
package polling
