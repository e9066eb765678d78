// Package standbys keeps events from being published before the standbys that may be promoted have them.
//
// The server sends a committed transaction to the stream when its own disk has it. A synchronous standby may not have
// it yet, and its writer may still wait in COMMIT. If the server dies then and the standby is promoted, the row does
// not exist, and its event would be in Kafka. The gate holds each transaction back until the standbys that the operator
// names have flushed it.
//
// # Which position is waited for
//
// A standby has a transaction when its flush_lsn has reached the end of the commit record. The stream's Begin message
// has only the start of that record, and a standby may have flushed a part of it: WAL is sent page by page. Two facts
// say more:
//
//   - The stream sends only what the server has flushed. So whatever the server reports as flushed after the Begin
//     message arrived is not before the end of its commit record. The gate waits until the standbys have reached that
//     (Gate.Ask).
//   - The server's insert position is the end of a record. So once the standbys have reached an insert position that
//     was reported earlier, they have every commit record that begins before it. This lets a backlog pass with one
//     comparison for each transaction (horizon).
//
// # One query, while something waits
//
// The gate has a connection of its own. It asks only while a transaction waits: at once, then after 1 ms, 2 ms, and so
// on up to 100 ms. The answer counts only if the server that gave it also serves the stream: the slot has to be held by
// the stream's session there. After a failover the positions of the old server mean nothing. If it is not held by that
// session for 5 s, the stream may be dead without a sign: nothing is read from it meanwhile. Then the reader asks the
// stream's own server who holds the slot (Gate.Elsewhere).
//
// # Where the server does it
//
// From PostgreSQL 17 on the server itself holds a slot with failover back for the standbys of the slots in
// synchronized_standby_slots. Standbys that use these slots are not waited for again. If there are no others the gate
// steps back, and asks once a second whether that is still so.
//
// requiredstandbys.go and horizon.go are pure; statreplication.go and connection.go ask the server, gate.go waits,
// trouble.go says what is waited for.
package standbys
