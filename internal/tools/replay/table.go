package replay

import (
	"context"
	"errors"
	"iter"

	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// table gives the chosen rows of an outbox table.
type table struct {
	o      *Options
	state  *State
	name   identifier.Table
	filter outboxtable.Filter
	expect func(rows int64) // receives an estimate of how many rows there are
}

// tableCursor is behind the row with the key.
type tableCursor struct{ key outboxtable.Key }

func (c tableCursor) moveTo(s *State) { s.Key = &c.key }

// errStopped ends the reading of a page when no more rows are wanted.
var errStopped = errors.New("stopped")

func (t *table) Rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		rows, err := outboxtable.Open(ctx, t.o.DSN, t.o.Admin, t.name, t.filter)
		if err != nil {
			yield(Row{}, err)
			return
		}
		defer rows.Close()
		sayOrder(t.o.Progress, rows)
		if t.filter.Until.IsZero() && len(t.filter.IDs) == 0 {
			if t.state.Until.IsZero() {
				t.state.Until = rows.Began()
			}
			rows.LeaveNewer(t.state.Until)
		}
		if n, err := rows.Estimate(ctx); err == nil { // only for the display
			t.expect(n)
		}
		stopped := false
		after := t.state.Key
		for more := true; more; {
			more, err = rows.Page(ctx, after, pageSize(t.o.Rate), func(
				rel *pgoutput.Relation, row pgoutput.Tuple, key outboxtable.Key,
			) error {
				after = &key
				if stopped = !yield(Row{rel, row, tableCursor{key}}, nil); stopped {
					return errStopped
				}
				return nil
			})
			if stopped {
				return
			}
			if err != nil {
				yield(Row{}, errors.Join(err, ctx.Err()))
				return
			}
		}
		yield(Row{Cursor: endOf{}}, nil)
	}
}

// pageSize lets no statement last for much longer than some seconds, at the rate at which its rows are taken.
func pageSize(rate int) int {
	if rate == 0 {
		return 5000
	}
	return min(5000, max(100, 5*rate))
}
