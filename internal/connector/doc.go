// Package connector joins the replication stream, the router, the tracker and the producer into one running relay.
//
// One goroutine, the reader, does all the work of a row: it receives the message, asks the tracker for the row's
// position and ticket, routes it, waits for room in the window and hands the record to the producer, which has encoded
// it when the call returns. Nothing per row crosses a channel. The producer's goroutine brings acknowledgements back;
// they move the tracker, and the stream's own clock carries the tracker's Confirmed to the server.
//
// Three rules keep promises N (no loss) and D (no duplicates in one life of the process):
//
//  1. A row that the tracker has handed out reaches the producer before the reader does anything else. The waits in
//     between (window, unknown topic) end with the process only, never with the stream. If they ended with the stream,
//     the repeat after the reconnect would be taken for a row that the producer already has.
//  2. A lost stream does not disturb tracker and producer. The next stream starts at Confirmed, and the tracker knows
//     which of the repeated rows the producer already has.
//  3. When the positions lose their meaning (another timeline, or another instance moved the slot), the reader waits
//     until the producer has nothing in flight and rewinds the tracker to the slot's own position. Acknowledgements of
//     the session before do not count.
//
// With exactly-once delivery the producer keeps the position of what is committed in Kafka, and gives it back when the
// first stream has begun: rows up to it are acknowledged without being produced. Beginning fences the instance before,
// so it happens only once the slot is ours. Kafka's transactions end where Postgres' transactions do, except that a
// transaction that does not fit into the window, waits at a topic that is missing, or is halted at a bad row, is
// committed in parts.
package connector
