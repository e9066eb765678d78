package consumer

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/internal/failure"
)

// Handler handles one record. The next step depends on the error that it returns:
//
//   - nil, inbox.ErrDuplicate: the record is done.
//   - inbox.ErrContended, inbox.ErrNotSent, inbox.ErrLedger, an error from Unavailable: the record is tried again for
//     as long as it takes.
//   - an error from Permanent, inbox.ErrUnfinished, inbox.ErrEventID: the record is dead-lettered at once.
//   - any other error, or a panic: the record is tried again within Attempts and Budget, and then dead-lettered; see
//     also Options.Breaker.
type Handler func(ctx context.Context, m Message) error

// BatchHandler handles records of one partition, in their order. If it returns nil or inbox.ErrDuplicate, all are done.
// After any other error, or a panic, it gets each of them alone, and what is said of a Handler's errors holds: so only
// the record that is the cause is tried again or dead-lettered.
type BatchHandler func(ctx context.Context, ms []Message) error

// BatchInTx returns a BatchHandler that handles each event once, and a batch in one transaction. handle gets the
// records whose events were not handled before. It is fastest if it sends its statements together (tx.SendBatch).
func BatchInTx(in *inbox.Inbox, handle func(ctx context.Context, tx pgx.Tx, ms []Message) error) BatchHandler {
	return func(ctx context.Context, ms []Message) error {
		err := in.HandleBatch(ctx, eventsOf(ms), func(ctx context.Context, tx pgx.Tx, fresh []int) error {
			return handle(ctx, tx, pick(ms, fresh))
		})
		return blame(ctx, err, in.Ping)
	}
}

// BatchInSQLTx is BatchInTx for database/sql.
func BatchInSQLTx(in *inbox.SQL, handle func(ctx context.Context, tx *sql.Tx, ms []Message) error) BatchHandler {
	return func(ctx context.Context, ms []Message) error {
		err := in.HandleBatch(ctx, eventsOf(ms), func(ctx context.Context, tx *sql.Tx, fresh []int) error {
			return handle(ctx, tx, pick(ms, fresh))
		})
		return blame(ctx, err, in.Ping)
	}
}

func eventsOf(ms []Message) []inbox.Event {
	events := make([]inbox.Event, len(ms))
	for i, m := range ms {
		events[i] = m.Event()
	}
	return events
}

// pick returns the messages with these indexes.
func pick(ms []Message, indexes []int) []Message {
	if len(indexes) == len(ms) {
		return ms
	}
	picked := make([]Message, len(indexes))
	for i, index := range indexes {
		picked[i] = ms[index]
	}
	return picked
}

// InTx returns a Handler that handles each event once, in a transaction of its own. While the database does not answer
// or the ledger cannot be used, the record waits.
func InTx(in *inbox.Inbox, handle func(ctx context.Context, tx pgx.Tx, m Message) error) Handler {
	return func(ctx context.Context, m Message) error {
		err := in.Handle(ctx, m.Event(), func(ctx context.Context, tx pgx.Tx) error { return handle(ctx, tx, m) })
		return blame(ctx, err, in.Ping)
	}
}

// InSQLTx is InTx for database/sql.
func InSQLTx(in *inbox.SQL, handle func(ctx context.Context, tx *sql.Tx, m Message) error) Handler {
	return func(ctx context.Context, m Message) error {
		err := in.Handle(ctx, m.Event(), func(ctx context.Context, tx *sql.Tx) error { return handle(ctx, tx, m) })
		return blame(ctx, err, in.Ping)
	}
}

// Forward returns a Handler that makes a call at most once for each event, to a system that cannot recognize a repeat;
// see inbox.Inbox.Forward. An event whose call has an unknown outcome becomes a dead letter (inbox.ErrUnfinished). An
// error of call that wraps inbox.ErrNotSent releases the claim: the record waits, or with Permanent becomes a dead
// letter that can be retried. The context of call ends after limit.
func Forward(in *inbox.Inbox, limit time.Duration, call Handler) Handler {
	return forward(in.Forward, limit, call)
}

// ForwardSQL is Forward for database/sql.
func ForwardSQL(in *inbox.SQL, limit time.Duration, call Handler) Handler {
	return forward(in.Forward, limit, call)
}

func forward(
	claimed func(context.Context, inbox.Event, time.Duration, func(context.Context) error) error, limit time.Duration,
	call Handler,
) Handler {
	return func(ctx context.Context, m Message) error {
		return claimed(ctx, m.Event(), limit, func(ctx context.Context) error { return call(ctx, m) })
	}
}

// Attempt returns a Handler for an effect beside the database that is prepared under a name of its own, and published
// in the transaction of the claim; see inbox.Inbox.Attempt.
func Attempt(
	in *inbox.Inbox, prepare func(ctx context.Context, m Message, attempt string) error,
	publish func(ctx context.Context, tx pgx.Tx, m Message, attempt string) error,
) Handler {
	return func(ctx context.Context, m Message) error {
		err := in.Attempt(ctx, m.Event(), func(ctx context.Context, attempt string) error {
			return prepare(ctx, m, attempt)
		}, func(ctx context.Context, tx pgx.Tx, attempt string) error { return publish(ctx, tx, m, attempt) })
		return blame(ctx, err, in.Ping)
	}
}

// AttemptSQL is Attempt for database/sql.
func AttemptSQL(
	in *inbox.SQL, prepare func(ctx context.Context, m Message, attempt string) error,
	publish func(ctx context.Context, tx *sql.Tx, m Message, attempt string) error,
) Handler {
	return func(ctx context.Context, m Message) error {
		err := in.Attempt(ctx, m.Event(), func(ctx context.Context, attempt string) error {
			return prepare(ctx, m, attempt)
		}, func(ctx context.Context, tx *sql.Tx, attempt string) error { return publish(ctx, tx, m, attempt) })
		return blame(ctx, err, in.Ping)
	}
}

// pingLimit is how long the database may take to show that it is not the cause.
const pingLimit = 5 * time.Second

// blame marks a failure of the handler itself as Unavailable while the database does not answer, because that may be
// its cause. An error of the ledger has its origin and needs no proof. The ping has a time limit of its own, because
// the handler's may be used up.
func blame(ctx context.Context, err error, ping func(context.Context) error) error {
	if err == nil || errors.Is(err, inbox.ErrDuplicate) || failure.IsPermanent(err) || failure.IsUnavailable(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingLimit)
	defer cancel()
	if ping(ctx) == nil {
		return err
	}
	return Unavailable(err)
}

// Unavailable marks an error of something that the handler needs and that is away: a connection that was refused, a
// 503. The record waits for it without using up attempts or budget, and with it its partition.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return failure.Away(err)
}

// Permanent marks an error that no repeat can fix, such as an invalid payload.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return failure.Final(err)
}
