package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// DB is what an Inbox needs of the database: a *pgxpool.Pool, or a *pgx.Conn for one event at a time.
type DB interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// Inbox handles events on pgx. It is safe for concurrent use if its DB is.
type Inbox struct {
	*ledger
	db DB
}

// New checks the options and returns an Inbox. It doesn't touch the database.
func New(db DB, opts Options) (*Inbox, error) {
	l, err := newLedger(opts)
	if err != nil {
		return nil, err
	}
	return &Inbox{l, db}, nil
}

// Handle claims the event, calls handle and commits, all in one transaction. nil means that the event has been handled now;
// ErrDuplicate that it was before, and handle wasn't called; ErrContended that it is being handled elsewhere. Any other error means that
// nothing was written, except that after a connection lost during the commit nobody knows: the next delivery finds out.
//
// A serialization failure or a deadlock (SQLSTATE 40001, 40P01), also one that handle returns or wraps, repeats the whole transaction.
func (in *Inbox) Handle(ctx context.Context, e Event, handle func(ctx context.Context, tx pgx.Tx) error) error {
	return in.run(ctx, e, func() error {
		return in.inTx(ctx, func(tx pgx.Tx) error {
			s := pgxSession{tx}
			if err := in.claim(ctx, s, e); err != nil {
				return err
			}
			if err := handle(ctx, handlerTx{tx}); err != nil {
				return err
			}
			if tx.Conn().PgConn().TxStatus() == 'I' {
				return errEnded
			}
			return in.finish(ctx, s, e)
		})
	})
}

// errEnded: the effect is there and so is its claim, so a second delivery can't do harm, but whatever handle did behind the end of the
// transaction is outside of it.
var errEnded = errors.New("inbox: the handler has ended the transaction itself")

// inTx runs do in a transaction.
func (in *Inbox) inTx(ctx context.Context, do func(tx pgx.Tx) error) error {
	tx, err := in.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: isolation[in.opts.Isolation]})
	if err != nil {
		return fmt.Errorf("inbox: begin: %w", err)
	}
	// After a commit it does nothing. It is bounded, as it must also run when ctx has ended, and in a panic.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("inbox: commit: %w", err)
	}
	return nil
}

func (in *Inbox) inSession(ctx context.Context, do func(s session) error) error {
	return in.inTx(ctx, func(tx pgx.Tx) error { return do(pgxSession{tx}) })
}

// Ping asks the database for an answer.
func (in *Inbox) Ping(ctx context.Context) error { return in.ping(ctx, in) }

// handlerTx keeps the handler from ending the transaction. Savepoints (Begin) are its own.
type handlerTx struct{ pgx.Tx }

func (handlerTx) Commit(context.Context) error {
	return errors.New("inbox: Handle commits, not the handler")
}

func (handlerTx) Rollback(context.Context) error {
	return errors.New("inbox: Handle rolls back when the handler returns an error")
}

type pgxSession struct{ tx pgx.Tx }

func (s pgxSession) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := s.tx.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

func (s pgxSession) scan(ctx context.Context, dest any, sql string, args ...any) error {
	return s.tx.QueryRow(ctx, sql, args...).Scan(dest)
}
