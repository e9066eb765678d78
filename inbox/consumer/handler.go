package consumer

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-outbox/cdc-outbox/inbox"
)

// Handler handles one record. nil and inbox.ErrDuplicate are done; inbox.ErrContended is tried again for as long as it takes; an error made by Permanent,
// inbox.ErrUnfinished and inbox.ErrEventID put the record aside at once; all others within Attempts and Budget. A panic is an error.
type Handler func(ctx context.Context, m Message) error

// InTx handles each event once, in a transaction of its own.
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

// Permanent marks an error that no repeat will mend, such as a payload that can't be read.
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
