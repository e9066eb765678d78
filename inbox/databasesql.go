package inbox

import (
	"context"
	"database/sql"
	"fmt"
)

// SQL handles events on database/sql, with any Postgres driver whose errors have a method SQLState (pgx, lib/pq). It is
// safe for concurrent use.
type SQL struct {
	*ledger
	db *sql.DB
}

// NewSQL checks the options and returns a SQL. It does not access the database.
func NewSQL(db *sql.DB, opts Options) (*SQL, error) {
	l, err := newLedger(opts)
	if err != nil {
		return nil, err
	}
	return &SQL{l, db}, nil
}

// Handle is Inbox.Handle for database/sql. It cannot prevent the handler from calling Commit of the *sql.Tx, but then
// Handle returns an error. The begin, and the proof that the transaction still has the claim, cost three round trips
// that Inbox does not need.
func (in *SQL) Handle(ctx context.Context, e Event, handle func(ctx context.Context, tx *sql.Tx) error) error {
	return in.run(ctx, e, func() error {
		return in.inTx(ctx, func(tx *sql.Tx) error {
			return in.once(ctx, sqlSession{tx}, e, func() error {
				return sqlSession{tx}.effects(ctx, func() error { return handle(ctx, tx) })
			})
		})
	})
}

// HandleBatch is Inbox.HandleBatch for database/sql, with the round trips of Handle.
func (in *SQL) HandleBatch(
	ctx context.Context, events []Event, handle func(ctx context.Context, tx *sql.Tx, fresh []int) error,
) error {
	if len(events) == 1 {
		return in.Handle(ctx, events[0], func(ctx context.Context, tx *sql.Tx) error { return handle(ctx, tx, only) })
	}
	return in.runBatch(ctx, events, func(b *batch) error {
		return in.inTx(ctx, func(tx *sql.Tx) error {
			return in.onceEach(ctx, sqlSession{tx}, b, func(fresh []int) error {
				return sqlSession{tx}.effects(ctx, func() error { return handle(ctx, tx, fresh) })
			})
		})
	})
}

// effects runs the handler, and proves that the transaction is the same after it.
func (s sqlSession) effects(ctx context.Context, handle func() error) error {
	var before, after string
	if err := s.scan(ctx, &before, transactionID); err != nil {
		return ofLedger(fmt.Errorf("inbox: look at the transaction: %w", err))
	}
	if err := handle(); err != nil {
		return err
	}
	if err := s.scan(ctx, &after, transactionID); err != nil {
		return ofCommit(fmt.Errorf("inbox: look for the claim: %w", err))
	}
	if before != after {
		return errEnded
	}
	return nil
}

func (in *SQL) inTx(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := in.db.BeginTx(ctx, &sql.TxOptions{Isolation: in.opts.Isolation})
	if err != nil {
		return ledgerError{fmt.Errorf("inbox: begin: %w", err)}
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return ofCommit(fmt.Errorf("inbox: commit: %w", err))
	}
	return nil
}

func (in *SQL) inSession(ctx context.Context, do func(s session) error) error {
	return in.inTx(ctx, func(tx *sql.Tx) error { return do(sqlSession{tx}) })
}

// Ping checks that the database answers.
func (in *SQL) Ping(ctx context.Context) error { return in.ping(ctx, in) }

type sqlSession struct{ tx *sql.Tx }

func (s sqlSession) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	result, err := s.tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (s sqlSession) texts(ctx context.Context, statement string, args ...any) (texts []string, err error) {
	rows, err := s.tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, rows.Err()
}

func (s sqlSession) scan(ctx context.Context, dest any, statement string, args ...any) error {
	return s.tx.QueryRowContext(ctx, statement, args...).Scan(dest)
}
