// Package replay publishes rows of the outbox once more, beside the connector.
//
// [Run] takes rows from one of three kinds of [Source]: the outbox tables (table.go), files that prune has archived
// (archive.go), or the tables again, chosen by the positions that records in Kafka have (positions.go). A source gives
// rows with cursors; the publisher (publisher.go) makes records of the rows, and returns after each batch the cursor up
// to which everything is acknowledged. The state (state.go) keeps it, so that an interrupted run goes on from there.
//
// [Repair] (repair.go) compares the tables with what Kafka has, and publishes what is missing with the same publisher.
package replay
