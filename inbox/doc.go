// Package inbox lets a consumer of events apply each event exactly once to its Postgres database, however often the
// event is delivered. The claim of the event's id and the handler's own writes are one transaction: both are committed,
// or neither is.
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
// NewSQL is the same for database/sql. Wait returns when a consumer has handled an event. Package inbox/consumer has
// the loop that reads Kafka, retries, and dead-letters records that cannot be handled.
//
// # Identity of an event
//
// Only the id header that the relay sends identifies an event. An offset does not: after a crash the relay appends the
// same event again at another offset, and a topic that is deleted and created again starts over at 0. Ids are compared
// byte for byte.
//
// # Effects beside the database
//
// Handle repeats a call to another system after a crash, which then has to recognize the event's id. Forward makes it
// at most once. Attempt prepares a file or an upload under a name of its own and publishes the name exactly once;
// CleanUp removes the others.
//
// # Which strategy
//
// Insert, the default, claims with INSERT ... ON CONFLICT DO NOTHING. A second delivery that arrives while the first is
// being handled waits for the first inside Postgres. If the first commits, the second is a duplicate; if the first
// fails, the second is handled. Insert costs one statement and one row version. Use it unless deliveries of the same
// event often overlap and handlers are slow, because each waiting delivery holds a connection.
//
// Advisory first takes pg_try_advisory_xact_lock on a hash of consumer and event id. A delivery that does not get the
// lock returns ErrContended at once and does not keep a connection waiting. The row changes from PROCESSING to
// COMPLETED in the same transaction. Advisory costs two more statements and leaves one dead row version per event for
// VACUUM. The locks belong to the whole database: another application's lock on the same 64-bit number, or another
// event with the same hash, delays an event but never loses it.
//
// All instances of one consumer should use the same strategy. A mixture is safe, but then Advisory waits like Insert.
//
// # Batches
//
// HandleBatch handles several events in one transaction, with one statement for their claims. An error undoes all of
// them, so a loop that uses it needs Handle, too; NewBatch of package inbox/consumer is such a loop.
//
// # The handler's duties
//
//  1. Write only through the tx that the handler gets. Writes elsewhere (HTTP, another database, Kafka) are not undone
//     when the transaction is rolled back; see Forward.
//  2. Leave the end of the transaction to Handle, which refuses Commit and Rollback of that tx.
//     What is run on its Conn is not seen, so Handle asks the server whether the transaction is the same.
//  3. Expect to be called again: after a serialization failure or a deadlock the whole transaction is repeated.
//  4. Return an error to have nothing written. The handler's own unique violations are its errors and are never
//     mistaken for a duplicate.
//
// Prune deletes old rows of the ledger. An event that is delivered again after its row was deleted is handled again.
//
// # Compatibility
//
// This package and inbox/consumer are an API that applications rely on, and their module is versioned semantically.
// From version 1.0.0 on an incompatible change raises the major version; before, it raises the minor version.
// CHANGELOG.md lists each such change. A ledger that an earlier version of Schema created keeps working.
package inbox
