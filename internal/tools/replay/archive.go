package replay

import (
	"context"
	"errors"
	"iter"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/archive"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
)

// file gives the chosen rows of an archive, after it has been read once to see that it is whole.
type file struct {
	path    string
	columns postgres.Columns
	filter  outboxtable.Filter
	done    int64 // rows that an earlier part of the run has dealt with
}

// fileCursor is behind the row with the number.
type fileCursor struct{ rows int64 }

func (c fileCursor) moveTo(s *State) { s.FileRows = c.rows }

func (f *file) Rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		_, err := archive.Verify(f.path)
		n, stopped := int64(0), false
		if err == nil {
			err = archive.Read(f.path, func(rel *pgoutput.Relation, row pgoutput.Tuple) error {
				if n++; n <= f.done {
					return nil
				}
				if ok, err := f.filter.Match(f.columns, rel, row); err != nil || !ok {
					return err
				}
				if stopped = !yield(Row{rel, row, fileCursor{n}}, nil); stopped {
					return errStopped
				}
				return nil
			})
		}
		if stopped {
			return
		}
		var known *fault.Error
		if err != nil && ctx.Err() == nil && !errors.As(err, &known) {
			err = &fault.Error{
				Kind: fault.Operator, Object: "--from-archive", Err: err,
				Next: "Take the file and its manifest from a copy.",
			}
		}
		if err != nil {
			yield(Row{}, err)
			return
		}
		yield(Row{Cursor: endOf{}}, nil)
	}
}
