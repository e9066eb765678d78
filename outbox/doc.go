// Package outbox writes events into the transactional outbox table that cdc-outbox publishes. The event is part of the
// application's own transaction, so it is published if and only if that transaction commits:
//
//	tx, err := pool.Begin(ctx)
//	...
//	_, err = tx.Exec(ctx, `UPDATE orders SET state = 'paid' WHERE id = $1`, id)
//	...
//	err = outbox.Insert(ctx, tx, outbox.Event{
//		AggregateType: "order", AggregateID: id, Type: "order_paid", Payload: paid,
//	})
//	...
//	err = tx.Commit(ctx)
//
// Insert takes a pgx.Tx and InsertSQL a *sql.Tx; a connection or a pool isn't accepted, as an event written outside
// the transaction is the very thing the pattern is to prevent; for the same reason a transaction that has ended is (ErrClosed). Queue adds the
// events to a pgx.Batch, and Emit writes them into the log without a table.
//
// Schema prints the table. The connector reads the write-ahead log, so it doesn't need the rows, and it ignores deletes;
// let a scheduler delete old ones by created_at, or drop old partitions (Options.Partitioned). Keep them for longer than the longest outage: if the connector's slot is
// lost, events are published again from the table.
//
// # Order
//
// The events of one aggregate arrive in the order in which their transactions commit, and within a transaction in the
// order of the Insert calls and of their arguments. If two transactions that write events of one aggregate may run at
// the same time, lock the aggregate's row first (SELECT ... FOR UPDATE, or an UPDATE of it): without that their commits
// come in either order, whatever the events say.
//
// # Other languages
//
// An event is one row; any language can insert it in its transaction:
//
//	INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, headers)
//	VALUES (gen_random_uuid(), 'order', '42', 'order_paid', '{"total": 12.50}', '{"traceparent": "00-..."}');
//
// The connector's rules for a row are: id, aggregate_type and aggregate_id aren't NULL; the topic made of
// aggregate_type is 1 to 249 characters of [a-zA-Z0-9._-] and doesn't start with "__"; headers is NULL or a JSON object
// of at most 256 members and 64 KiB, none of them named id, type or position, and no name is empty or holds control
// characters; a NULL payload is a tombstone. A row that breaks them stops the connector in front of it (or is skipped, where
// router.on_bad_row says so), so the table's CHECK constraints refuse most of them, and this package all of them, before
// they are written.
package outbox
