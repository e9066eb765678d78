package consumer

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// Handler handles one record. What happens next depends on the error that it returns:
//
//   - nil, inbox.ErrDuplicate: the record is done.
//   - inbox.ErrContended: the record is tried again for as long as it takes.
//   - an error from Permanent, inbox.ErrUnfinished, inbox.ErrEventID: the record is dead-lettered at once.
//   - any other error, or a panic: the record is tried again within Attempts and Budget, and then dead-lettered.
type Handler func(ctx context.Context, m Message) error

// InTx returns a Handler that handles each event once, in a transaction of its own.
func InTx(in *inbox.Inbox, handle func(ctx context.Context, tx pgx.Tx, m Message) error) Handler {
	return func(ctx context.Context, m Message) error {
		return in.Handle(ctx, m.Event(), func(ctx context.Context, tx pgx.Tx) error { return handle(ctx, tx, m) })
	}
}

// InSQLTx is InTx for database/sql.
func InSQLTx(in *inbox.SQL, handle func(ctx context.Context, tx *sql.Tx, m Message) error) Handler {
	return func(ctx context.Context, m Message) error {
		return in.Handle(ctx, m.Event(), func(ctx context.Context, tx *sql.Tx) error { return handle(ctx, tx, m) })
	}
}

type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent marks an error that no repeat can fix, such as an invalid payload.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

func isPermanent(err error) bool {
	var p permanent
	return errors.As(err, &p) || errors.Is(err, inbox.ErrUnfinished) || errors.Is(err, inbox.ErrEventID)
}
