package replication

import (
	"errors"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/sqlstate"
)

// sameRefusals is how often in a row the server may fail at the same row with the same words. An internal error may be
// about reading WAL, and pass; about a row, it stays: the log keeps the row as it is.
const sameRefusals = 3

// rowRefusal is an internal error of the server while it decodes one change.
type rowRefusal struct {
	at, message string
	times       int
}

// unprintable turns the error of a row that the server cannot send into one that needs an operator, such as a bytea
// whose text is longer than the server can allocate (XX000, "invalid memory alloc request size"). The server names the
// change in the error's context; an error without one is not about a row.
func (r *runner) unprintable(err error) error {
	pg := sqlstate.RefusalOf(err)
	var f *fault.Error
	if pg == nil || pg.Code != sqlstate.Internal || !errors.As(err, &f) || f.Kind != fault.Retry ||
		!associatedLSN.MatchString(pg.Where) {
		r.refused = rowRefusal{}
		return err
	}
	if r.refused.at != f.At || r.refused.message != pg.Message {
		r.refused = rowRefusal{at: f.At, message: pg.Message}
	}
	if r.refused.times++; r.refused.times < sameRefusals {
		return err
	}
	lasting := *f
	lasting.Kind = fault.Operator
	return lasting.With(r.cfg.rowRemedy("holds a value that the server cannot print"))
}
