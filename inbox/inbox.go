package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// DB is the database of an Inbox: a *pgxpool.Pool, or a *pgx.Conn for one event at a time. Each batch that it gets
// begins a transaction (pgx.Batch.BeginTx) and has its first statement, so that the begin costs no round trip.
type DB interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Inbox handles events on pgx. It is safe for concurrent use if its DB is.
type Inbox struct {
	*ledger
	db DB
}

// New checks the options and returns an Inbox. It does not access the database.
func New(db DB, opts Options) (*Inbox, error) {
	l, err := newLedger(opts)
	if err != nil {
		return nil, err
	}
	return &Inbox{l, db}, nil
}

// Handle claims the event, calls handle and commits, all in one transaction. It returns nil if the event has been
// handled now, ErrDuplicate if it was handled before (handle was not called), and ErrContended if another delivery of
// it is being handled. Any other error means that nothing was written. One case is uncertain: if the connection is lost
// during the commit, only the next delivery finds out whether the transaction was committed.
//
// The deadline of ctx is the transaction's, too: the server ends one that has been idle for so long
// (idle_in_transaction_session_timeout), so that a process that is frozen in handle does not keep the claim. Without a
// deadline the database's own limit applies.
//
// A handle that ends the transaction by SQL, also by ROLLBACK AND CHAIN, gets an error instead of nil.
//
// A serialization failure or a deadlock (SQLSTATE 40001, 40P01) repeats the whole transaction, also if handle returns
// or wraps the error.
func (in *Inbox) Handle(ctx context.Context, e Event, handle func(ctx context.Context, tx pgx.Tx) error) error {
	return in.run(ctx, e, func() error {
		return in.inTx(ctx, func(s *pgxSession) error {
			return in.once(ctx, s, e, func() error {
				return effects(ctx, s.tx, func(tx pgx.Tx) error { return handle(ctx, tx) })
			})
		})
	})
}

// HandleBatch is Handle for several events in one transaction, with one statement for their claims. handle gets the
// indexes of the events that it has to handle, in their order: without events that were handled before, and
// without a second one of the same id.
//
// It returns nil if events have been handled now and the others were before, ErrDuplicate if all were before (handle
// was not called). After any other error nothing was written for any of them: deliver them one by one to find out which
// is the cause. A batch of one event is Handle.
//
// A batch claims as the strategy Insert does: it waits for a delivery of one of its events that is being handled. In
// the metrics, a batch that fails counts as one delivery.
func (in *Inbox) HandleBatch(
	ctx context.Context, events []Event, handle func(ctx context.Context, tx pgx.Tx, fresh []int) error,
) error {
	if len(events) == 1 {
		return in.Handle(ctx, events[0], func(ctx context.Context, tx pgx.Tx) error { return handle(ctx, tx, only) })
	}
	return in.runBatch(ctx, events, func(b *batch) error {
		return in.inTx(ctx, func(s *pgxSession) error {
			return in.onceEach(ctx, s, b, func(fresh []int) error {
				return effects(ctx, s.tx, func(tx pgx.Tx) error { return handle(ctx, tx, fresh) })
			})
		})
	})
}

// effects runs the handler in the transaction of its claim.
func effects(ctx context.Context, tx pgx.Tx, handle func(tx pgx.Tx) error) error {
	c := &claimed{ctx: ctx, tx: tx}
	if err := handle(handlerTx{tx, c}); err != nil {
		return err
	}
	return c.prove()
}

// inTx runs do, which runs a statement, in a transaction.
func (in *Inbox) inTx(ctx context.Context, do func(s *pgxSession) error) error {
	s := &pgxSession{db: in.db, opts: pgx.TxOptions{IsoLevel: isolation[in.opts.Isolation]}}
	committed := false
	defer func() {
		if !committed {
			s.rollback(ctx)
		}
	}()
	if err := do(s); err != nil {
		return err
	}
	if err := s.tx.Commit(ctx); err != nil {
		return ofCommit(fmt.Errorf("inbox: commit: %w", err))
	}
	committed = true
	return nil
}

func (in *Inbox) inSession(ctx context.Context, do func(s session) error) error {
	return in.inTx(ctx, func(s *pgxSession) error { return do(s) })
}

// Ping checks that the database answers.
func (in *Inbox) Ping(ctx context.Context) error { return in.ping(ctx, in) }

var errNotYours = errors.New("inbox: Handle commits or rolls back, when the handler has returned")
