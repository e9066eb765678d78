// Package inbox lets a consumer of events apply each of them exactly once to its Postgres database, however often it is delivered. The claim of the
// event's id and the handler's own writes are one transaction: either both are there or neither.
//
//	in, err := inbox.New(pool, inbox.Options{Consumer: "billing"})
//	...
//	err = in.Handle(ctx, inbox.Event{ID: id}, func(ctx context.Context, tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, `INSERT INTO invoices ...`)
//		return err
//	})
//	switch {
//	case err == nil || errors.Is(err, inbox.ErrDuplicate): // acknowledge
//	case errors.Is(err, inbox.ErrContended):               // deliver it again, later
//	default:                                               // failed, nothing was written
//	}
//
// NewSQL is the same for database/sql. Package inbox/consumer has the loop that reads Kafka, retries and puts aside what can't be handled.
//
// # What identifies an event
//
// The id header that the relay sends, nothing else. An offset isn't one: after a crash the relay appends the same event again, at
// another offset; and a topic that is deleted and created again starts over at 0. Ids are compared byte for byte.
//
// # Which strategy
//
// Insert, the default, claims with INSERT ... ON CONFLICT DO NOTHING. A second delivery that comes while the first is
// at work waits for it, inside Postgres, and then learns that it is a duplicate; or, if the first failed, goes to work itself. One
// statement and one row version. Take it unless deliveries of the same event overlap often and handlers are slow: each that waits holds a connection.
//
// Advisory takes pg_try_advisory_xact_lock on a hash of consumer and event id first. Who doesn't get the lock learns so at once
// (ErrContended) and keeps no connection waiting. The row goes from PROCESSING to COMPLETED, in the same transaction. Two more statements, and a dead row version per
// event for VACUUM. The locks are those of the whole database: a lock of somebody else's on the same 64-bit number, or the hash of another event,
// makes an event wait, but never disappear.
//
// All instances of one consumer use the same strategy; mixing them is safe, but then Advisory waits like Insert.
//
// # The handler's side
//
//  1. Write through the tx it is given, and only through it. What goes elsewhere (HTTP, another database, Kafka) isn't
//     undone when the transaction is rolled back; see Forward.
//  2. Leave the end of the transaction to Handle. Commit and Rollback of that tx are refused.
//  3. Be ready to be called again: after a serialization failure or a deadlock the whole transaction is repeated.
//  4. Return an error to have nothing written; its own unique violations are its errors, never taken for a duplicate.
//
// Prune deletes old rows of the ledger. An event that is delivered again after its row is gone is handled again.
package inbox
