package outbox

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

var errNoTx = errors.New("outbox: the transaction is nil")

// ErrClosed means that the transaction has already ended, so the event would not be part of it.
var ErrClosed = errors.New("outbox: the transaction has already ended, so the event cannot be part of it")

// open also detects a transaction that SQL has ended without pgx's knowledge. In it the statement would be a
// transaction of its own.
func open(tx pgx.Tx) error {
	if tx == nil {
		return errNoTx
	}
	if conn := tx.Conn(); conn != nil && !conn.IsClosed() && conn.PgConn().TxStatus() == 'I' {
		return ErrClosed
	}
	return nil
}

func failure(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxClosed), errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("%w (%w)", ErrClosed, err)
	}
	return fmt.Errorf("outbox: %s: %w", what, err)
}
