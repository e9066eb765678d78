package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/login"
)

// LimitRows bounds the memory that a row takes which a query returns. The connection does not survive a longer one: its
// query ends with an error, of which QueryFault says the length. bytes is 0 for no bound but the protocol's.
func LimitRows(conn *pgx.Conn, bytes int64) {
	if bytes > 0 && bytes < 1<<30 {
		conn.PgConn().Frontend().SetMaxBodyLen(int(bytes))
	}
}

// LongRowError is the cause of the fault of a query that found a row beyond the bound.
type LongRowError struct{ Bytes, Most int }

func (e *LongRowError) Error() string {
	return fmt.Sprintf("a row has %d bytes, and window.row allows %d", e.Bytes, e.Most)
}

// longRow is the fault of a query that found a row beyond the bound; nil if that is not what err says. PostgreSQL has
// no row of a GiB (MaxAllocSize in memutils.h): such a length is nonsense on the line, and the next connection may be
// well. So is a message beyond login.MaxMessage if no row was asked for.
func longRow(object string, err error) *fault.Error {
	var long *pgproto3.ExceededMaxBodyLenErr
	if !errors.As(err, &long) || long.ActualBodyLen >= 1<<30 || long.MaxExpectedBodyLen == login.MaxMessage {
		return nil
	}
	return &fault.Error{
		Kind: fault.Operator, Object: object,
		Err: &LongRowError{long.ActualBodyLen, long.MaxExpectedBodyLen},
		Next: "Raise window.row, and give the process four times as much memory. Or find the row, WHERE " +
			fmt.Sprintf("octet_length((o.*)::text) > %d", long.MaxExpectedBodyLen/10*9) +
			" with o as the table's alias, and make it shorter.",
	}
}
