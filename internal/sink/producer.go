package sink

import (
	"context"
	"errors"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// Errors of a Producer.
var (
	// ErrStopped is the error of ProduceAt and Drain if Run has ended without an error of its own.
	ErrStopped = errors.New("the producer has stopped")

	// ErrFenced is the error of ProduceAt, Drain and Keep if another instance has begun. What was not acknowledged is
	// the other instance's to send. Abandon it, and Begin again when the source is ours again.
	ErrFenced = errors.New("another producer has taken over")

	// ErrSessionOver is the error of ProduceAt, Drain and Keep after an event that no repeat of the same bytes can
	// heal: the broker has lost the producer's sequence, a transaction has timed out, a refused record is to be left
	// out, a topic was made again with fewer partitions. The caller calls Abandon, Begin if it has an owner, and
	// produces again whatever was not acknowledged. Some of that may be in the log already; with transactions, only if
	// the position that Begin returns covers it.
	ErrSessionOver = errors.New("the session with the broker is over")

	// ErrNotAllowed is for a user who has no right to the owner's position.
	ErrNotAllowed = errors.New("the user has no right to the group")
)

// Producer writes records to a broker: in order per key, each acknowledged once by Callbacks.Acked or counted by
// Abandon. A producer without an owner is made by a source that has no tenure (the polling relay, commands): it is not
// fenced and Begin, Latest and Keep return at once.
type Producer interface {
	// Run connects and sends until ctx ends, which returns nil. Any other return is an Operator or Fatal *fault.Error;
	// a failure that passes, or that can be fixed while the producer waits, is in Trouble instead.
	Run(ctx context.Context) error

	// Latest returns the position that the owner has stored last, false for none, and takes nothing from another
	// instance: it is for a caller who has to find out whether it may Begin at all.
	Latest(ctx context.Context, owner Owner) (Stored, bool, error)

	// Begin fences earlier producers of the owner and returns the position that is stored, false for none. The caller
	// must know that it is the rightful one, by holding the slot. It is called before the first ProduceAt, and again
	// after each Abandon. It waits for the broker as long as ctx lasts.
	Begin(ctx context.Context, owner Owner) (Stored, bool, error)

	// Keep asks whether this instance is still the latest that has begun, ErrFenced if it is not. It disturbs no other
	// instance.
	Keep(ctx context.Context) error

	// Remember has the mark of the checkpoint stored with the next position; Remembered waits until it is.
	Remember(m Mark)
	Remembered(ctx context.Context) error

	// Abandon gives up every record that is not known to be written. Acked is not called for any of them any more; it
	// may still be called for others until Drain has returned.
	Abandon() Dropped

	// ProduceAt takes the record, of which it keeps nothing. pos is what is covered once the record and all before it
	// are written, zero if no position is kept. A record that can never be taken is a *RefusedError, with nothing
	// taken.
	ProduceAt(ctx context.Context, rec *router.Record, ticket uint64, pos Position) error

	// Mark says that a transaction of the source ends with the last record, Commit that what is open should be written
	// soon, Full that the caller waits for room. They mean nothing without transactions.
	Mark()
	Commit()
	Full()

	// Flush says that no more records are coming right now. Drain flushes and waits until Acked has returned for every
	// record.
	Flush()
	Drain(ctx context.Context) error

	// Trouble returns the causes of all waits at this moment, empty if nothing is wrong.
	Trouble() []Trouble

	// Grown returns the topics that have got partitions, Partitions how many are in use; Refresh has the next record of
	// each topic wait until its partitions are asked for.
	Grown() []Growth
	Partitions() int64
	Refresh()
}

// Callbacks are the calls of a producer back to its source. A source passes them to the function that opens its
// producer.
type Callbacks struct {
	// Acked is called from one goroutine, batch by batch, in order per partition, exactly once per record, when the
	// records are written as durably as the broker can and their transaction, if any, is committed. It should return
	// soon and must not call ProduceAt or Drain.
	Acked func(Delivery)

	// Ended is called with ErrFenced or ErrSessionOver when the session is over, once until the next Abandon. It must
	// return at once. Nil: it is not called.
	Ended func(error)
}

// Open makes a producer that calls back. It connects to nothing.
type Open func(Callbacks) (Producer, error)

// Keeper keeps the mark of the slot's checkpoint for a producer that stores no position.
type Keeper interface {
	// Run keeps the marks that Keep was given until ctx ends, and the last one then.
	Run(ctx context.Context) error
	// Fetch returns the mark that is kept for the owner, false for none. It tries once.
	Fetch(ctx context.Context, owner string) (Stored, bool, error)
	Keep(owner string, s Stored)
	// NotAllowed says once that nothing is kept, and the right that would allow it.
	NotAllowed(owner string)
}
