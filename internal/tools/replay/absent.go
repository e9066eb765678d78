package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
)

// FindAbsent returns the ids of the rows since then that Kafka does not have, by table, and of rows that make no record
// and about which nothing was decided. No connector may publish meanwhile.
//
// It refuses where absence proves nothing: for the reasons of a repair, and if the table has no row from before the
// gap, which began at from. Then rows of the gap may have been deleted, too.
func FindAbsent(ctx context.Context, o RepairOptions, from time.Time) ([][]string, error) {
	o.SkipBad = true
	r, err := newRepair(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.reachesBack(ctx, from); err != nil {
		return nil, err
	}
	if err := r.survey(ctx); err != nil {
		return nil, err
	}
	doubts, err := r.readTopics(ctx)
	if err != nil {
		return nil, err
	}
	if len(doubts) > 0 {
		return nil, doubts[0]
	}
	if err := r.subtract(); err != nil {
		return nil, err
	}
	r.ids = make([][]string, len(r.tables))
	if err := r.name(ctx); err != nil {
		return nil, err
	}
	return r.ids, r.unproven()
}

// reachesBack refuses tables that do not show that the rows of a gap are all there.
func (r *repair) reachesBack(ctx context.Context, from time.Time) error {
	for i, rows := range r.tables {
		f := &fault.Error{Kind: fault.Operator, Object: "table " + r.report.Tables[i].Table}
		if !rows.Timed() {
			f.Err = errors.New("its rows have no time (router.columns.timestamp), so it does not show whether rows " +
				"of the gap were deleted")
			return f
		}
		untimed, err := rows.Untimed(ctx)
		if err != nil {
			return err
		}
		if untimed > 0 {
			f.Err = fmt.Errorf("%s no time (router.columns.timestamp), so it is not known whether they are of the gap",
				human.Counted(untimed, "row has", "rows have"))
			return f
		}
		oldest, some, err := rows.Oldest(ctx)
		if err != nil {
			return err
		}
		if !some || oldest.After(from) {
			f.Err = fmt.Errorf("it has no row from before the gap, which began at %s, so rows of the gap may have "+
				"been deleted, too", human.Time(from))
			return f
		}
	}
	return nil
}
