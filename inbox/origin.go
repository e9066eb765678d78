package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ledgerError keeps the origin of an error: a statement of the ledger, or the connection for it.
type ledgerError struct{ cause error }

func (e ledgerError) Error() string { return e.cause.Error() }

func (e ledgerError) Unwrap() []error { return []error{ErrLedger, e.cause} }

// ofLedger marks an error of a statement of the ledger, unless it is about the values of the event: data exceptions and
// violated constraints (SQLSTATE classes 22 and 23), such as an id that the encoding of the database does not have. Nor
// is it the ledger's fault if an earlier statement has failed, of a handler that returned no error (25P02).
func ofLedger(err error) error {
	switch state := sqlState(err); {
	case strings.HasPrefix(state, "22"), strings.HasPrefix(state, "23"), state == failedTransaction:
		return err
	case state == "42P01":
		err = fmt.Errorf("%w; inbox.Schema, for attempts inbox.AttemptsSchema, returns the SQL that makes the table",
			err)
	}
	return ledgerError{err}
}

// ofCommit marks an error of a commit if the connection or the state of the server is its cause. Deferred constraints
// and triggers of the handler's tables fail in the commit, too, and a handler that has hidden an error of a statement
// gets it here. The end of the context says nothing: the handler may have used its time up.
func ofCommit(err error) error {
	for _, other := range []error{
		pgx.ErrTxCommitRollback, pgx.ErrTxClosed, sql.ErrTxDone, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, other) {
			return err
		}
	}
	state := sqlState(err)
	if state == "" {
		return ledgerError{err}
	}
	switch state[:2] {
	case "08", "25", "53", "57", "58", "XX":
		if state != failedTransaction {
			return ledgerError{err}
		}
	}
	return err
}

const failedTransaction = "25P02"

// sqlState returns the SQLSTATE; empty: there is none.
func sqlState(err error) string {
	var state interface{ SQLState() string }
	if !errors.As(err, &state) || len(state.SQLState()) != 5 {
		return ""
	}
	return state.SQLState()
}
