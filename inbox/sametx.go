package inbox

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// transactionID identifies the transaction, by the id that Postgres gives it when it first writes, as the claim does.
// It changes when a handler ends the transaction by COMMIT, ROLLBACK or one of them AND CHAIN, after which the session
// looks as before: in a transaction.
const transactionID = `SELECT coalesce(pg_catalog.pg_current_xact_id_if_assigned()::text, '')`

// handlerTx is the transaction that a handler gets. It refuses to end, and finds out that a handler has ended it by
// SQL. Only a statement of that name can do that (docs, PL/pgSQL, Transaction Management: no function can, and no
// procedure that is called in a transaction block), so the server is not asked before there is one. The handler may use
// savepoints (Begin).
type handlerTx struct {
	pgx.Tx
	*claimed
}

// claimed is what is known of the claim's transaction.
type claimed struct {
	ctx   context.Context
	tx    pgx.Tx
	asked bool
	id    string // if it was asked for
}

func (handlerTx) Commit(context.Context) error { return errNotYours }

func (handlerTx) Rollback(context.Context) error { return errNotYours }

func (h handlerTx) Exec(ctx context.Context, text string, args ...any) (tag pgconn.CommandTag, err error) {
	h.before(text)
	return h.Tx.Exec(ctx, text, args...)
}

func (h handlerTx) Query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	h.before(text)
	return h.Tx.Query(ctx, text, args...)
}

func (h handlerTx) QueryRow(ctx context.Context, text string, args ...any) pgx.Row {
	h.before(text)
	return h.Tx.QueryRow(ctx, text, args...)
}

func (h handlerTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, query := range b.QueuedQueries {
		h.before(query.SQL)
	}
	return h.Tx.SendBatch(ctx, b)
}

func (h handlerTx) Prepare(ctx context.Context, name, text string) (*pgconn.StatementDescription, error) {
	h.before(text)
	return h.Tx.Prepare(ctx, name, text)
}

// Conn is a way around this type, so what is done with it is not seen. While rows are being read, nothing can be asked.
func (h handlerTx) Conn() *pgx.Conn {
	conn := h.Tx.Conn()
	if !conn.PgConn().IsBusy() {
		h.ask()
	}
	return conn
}

// Begin makes a savepoint.
func (h handlerTx) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := h.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return savepointTx{tx, handlerTx{tx, h.claimed}}, nil
}

// savepointTx is a savepoint of a handlerTx, which may end.
type savepointTx struct {
	savepoint pgx.Tx
	handlerTx
}

func (s savepointTx) Commit(ctx context.Context) error { return s.savepoint.Commit(ctx) }

func (s savepointTx) Rollback(ctx context.Context) error { return s.savepoint.Rollback(ctx) }

// before asks which transaction it is before the first statement that may end it.
func (c *claimed) before(text string) {
	if !c.asked && mayEnd(text) {
		c.ask()
	}
}

// ask has no answer in a transaction that has failed. Then the statement that follows can only end it: a savepoint to
// go back to was made by a statement before which it was asked.
func (c *claimed) ask() {
	if c.asked {
		return
	}
	if c.asked = true; c.tx.Conn().PgConn().TxStatus() != 'T' {
		return
	}
	if err := c.tx.QueryRow(c.ctx, transactionID).Scan(&c.id); err != nil {
		c.id = ""
	}
}

// prove returns errEnded if the transaction of the claim is over.
func (c *claimed) prove() error {
	switch c.tx.Conn().PgConn().TxStatus() {
	case 'I':
		return errEnded
	case 'E': // the handler has returned no error for a statement that failed
		return fmt.Errorf("inbox: commit: %w", pgx.ErrTxCommitRollback)
	}
	if !c.asked {
		return nil
	}
	var id string
	if err := c.tx.QueryRow(c.ctx, transactionID).Scan(&id); err != nil {
		return ofCommit(fmt.Errorf("inbox: look for the claim: %w", err))
	}
	if id != c.id || id == "" {
		return errEnded
	}
	return nil
}

// mayEnd reports whether the text may have a statement that ends a transaction, or one that prepares for that: the name
// of a prepared statement, or a savepoint.
func mayEnd(text string) bool {
	const space = " \t\n\v\f\r"
	if !strings.ContainsAny(text, space) {
		return true
	}
	for {
		text = strings.TrimLeft(text, space)
		for _, word := range [...]string{"commit", "end", "abort", "rollback", "prepare", "savepoint"} {
			if len(text) >= len(word) && strings.EqualFold(text[:len(word)], word) {
				return true
			}
		}
		next := strings.IndexAny(text, ";\n\r/") // a statement begins at the text's begin, or after one, or a comment
		if next < 0 {
			return false
		}
		text = text[next+1:]
	}
}
