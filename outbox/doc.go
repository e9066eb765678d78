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
// Insert takes a pgx.Tx, InsertSQL a *sql.Tx. Neither accepts a connection or a pool, because the pattern exists to
// prevent events that are written outside the transaction. For the same reason both refuse a transaction that has ended
// (ErrClosed). Queue adds the events to a pgx.Batch. Emit writes them into the write-ahead log without a table.
//
// Schema returns the SQL of the table. The connector reads the write-ahead log, so it does not need the rows after they
// are committed, and it ignores deletes. Let a scheduled job delete old rows by created_at, or drop old partitions
// (Options.Partitioned). Keep the rows for longer than the longest outage: if the connector's slot is lost, the events
// are published again from the table.
//
// # Order
//
// The events of one aggregate arrive in the order in which their transactions commit. Within a transaction they arrive
// in the order of the Insert calls and of the arguments. If two transactions that write events of the same aggregate
// can run at the same time, lock the aggregate's row first (SELECT ... FOR UPDATE, or an UPDATE of it). Without the
// lock they can commit in either order, whatever their events say.
//
// # Tests
//
// Wait returns when the relay has published what was committed before, so a test needs no sleep.
// Package outbox/outboxtest shows a test which events a transaction has written, before it commits.
//
// # Other languages
//
// An event is one row. Any language can insert it in its transaction:
//
//	INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, headers)
//	VALUES (gen_random_uuid(), 'order', '42', 'order_paid', '{"total": 12.50}', '{"traceparent": "00-..."}');
//
// The connector publishes a row if these rules hold:
//
//   - id, aggregate_type and aggregate_id are not NULL.
//   - The topic that is built from aggregate_type has 1 to 249 characters of [a-zA-Z0-9._-] and does not start with
//     "__".
//   - headers is NULL or a JSON object of at most 256 members and 64 KiB. No member is named id, type or position, and
//     no name is empty or contains control characters.
//   - A NULL payload is a tombstone.
//
// The connector halts at a row that breaks a rule, or skips or dead-letters it (router.on_bad_row). The CHECK
// constraints of the table refuse most of these rows before they are written, and this package refuses all of them.
//
// # Compatibility
//
// This package is an API that applications rely on, and its module is versioned semantically. From version 1.0.0 on an
// incompatible change raises the major version; before, it raises the minor version. CHANGELOG.md lists each such
// change. A table that an earlier version of Schema created keeps working.
package outbox
