// Package replay publishes rows of the outbox once more, beside the connector.
//
// [Run] takes rows from one of three kinds of [Source]: the outbox tables, files that prune has archived, or the
// tables again, chosen by the positions that records in Kafka have. A source gives rows with cursors; the publisher
// makes records of the rows, and returns after each batch the cursor up to which everything is acknowledged. The state
// keeps it, so that an interrupted run goes on from there.
//
// [Repair] compares the tables with Kafka, and publishes the missing rows with the same publisher.
package replay
