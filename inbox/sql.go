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
// Handle returns an error. Before the commit it asks whether the transaction still has the claim, a round trip that
// Inbox does not need.
func (in *SQL) Handle(ctx context.Context, e Event, handle func(ctx context.Context, tx *sql.Tx) error) error {
	return in.run(ctx, e, func() error {
		return in.inTx(ctx, func(tx *sql.Tx) error {
			return in.once(ctx, sqlSession{tx}, e, func() error {
				if err := handle(ctx, tx); err != nil {
					return err
				}
				return in.prove(ctx, sqlSession{tx})
			})
		})
	})
}

// HandleBatch is Inbox.HandleBatch for database/sql, with the round trip of Handle before the commit.
func (in *SQL) HandleBatch(
	ctx context.Context, events []Event, handle func(ctx context.Context, tx *sql.Tx, fresh []int) error,
) error {
	if len(events) == 1 {
		return in.Handle(ctx, events[0], func(ctx context.Context, tx *sql.Tx) error { return handle(ctx, tx, only) })
	}
	return in.runBatch(ctx, events, func(b *batch) error {
		return in.inTx(ctx, func(tx *sql.Tx) error {
			return in.onceEach(ctx, sqlSession{tx}, b, func(fresh []int) error {
				if err := handle(ctx, tx, fresh); err != nil {
					return err
				}
				return in.prove(ctx, sqlSession{tx})
			})
		})
	})
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
