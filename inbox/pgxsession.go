package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// pgxSession is a transaction that begins with its first statement, in one round trip.
type pgxSession struct {
	db   DB
	opts pgx.TxOptions
	tx   pgx.Tx // nil before the first statement
}

func (s *pgxSession) exec(ctx context.Context, statement string, args ...any) (affected int64, err error) {
	err = s.query(ctx, func(rows pgx.Rows) error {
		rows.Close()
		affected = rows.CommandTag().RowsAffected()
		return rows.Err()
	}, statement, args)
	return affected, err
}

func (s *pgxSession) texts(ctx context.Context, statement string, args ...any) (texts []string, err error) {
	err = s.query(ctx, func(rows pgx.Rows) (err error) {
		texts, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	}, statement, args)
	return texts, err
}

func (s *pgxSession) scan(ctx context.Context, dest any, statement string, args ...any) error {
	return s.query(ctx, func(rows pgx.Rows) error {
		defer rows.Close()
		if rows.Next() {
			if err := rows.Scan(dest); err != nil {
				return err
			}
			rows.Close()
			return rows.Err()
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}, statement, args)
}

// query runs one statement. read has to close its rows.
func (s *pgxSession) query(ctx context.Context, read func(pgx.Rows) error, statement string, args []any) error {
	if s.tx == nil {
		return s.begin(ctx, read, statement, args)
	}
	rows, err := s.tx.Query(ctx, statement, args...)
	if err != nil {
		return err
	}
	return read(rows)
}

// begin sends the first statement together with the begin of the transaction.
func (s *pgxSession) begin(ctx context.Context, read func(pgx.Rows) error, statement string, args []any) error {
	var b pgx.Batch
	b.BeginTx(s.opts)
	b.Queue(statement, args...)
	results := s.db.SendBatch(ctx, &b)
	s.tx = results.Tx()
	_, err := results.Exec()
	if err != nil && s.tx.Conn() == nil { // from the pool
		return ledgerError{fmt.Errorf("inbox: begin: %w", err)}
	}
	if err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			err = read(rows)
		}
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	return err
}

// rollback has a time limit of its own because it must also run if ctx has ended or a handler panics.
func (s *pgxSession) rollback(ctx context.Context) {
	if s.tx == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	_ = s.tx.Rollback(ctx)
}
