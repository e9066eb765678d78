package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/replay"
)

// gapsToRepair returns the open gaps that a repair of the rows since then looks at as a whole. Without since it is
// moved to before the first of them, unless a beginning is not known or rows have no time.
func (a *app) gapsToRepair(
	ctx context.Context, c *config.Loaded, db wiring.Target, since *time.Time,
) ([]gap.Gap, error) {
	open, err := service.OpenGaps(ctx, c)
	if err != nil || len(open) == 0 {
		return nil, err
	}
	timed, err := service.RowsHaveTimes(ctx, db)
	if err != nil {
		return nil, err
	}
	given := *since
	var covered []gap.Gap
	for i := range open {
		g := &open[i]
		fmt.Fprintln(a.stderr, fault.Printable(g.Sentence()))
		if !g.Lasts() && (given.IsZero() || g.FromAt != nil && !given.After(*g.FromAt)) {
			covered = append(covered, *g)
		}
	}
	if first, unknown := gap.Earliest(open); given.IsZero() && timed && unknown == nil {
		*since = first.Add(-gap.Before)
		fmt.Fprintf(a.stderr, "Looking at the rows from %s on.\n", human.Time(*since))
	}
	return covered, nil
}

// keptForGaps is the time from which on prune leaves all rows, since an open gap may be settled with them; zero if none
// is open.
func (a *app) keptForGaps(ctx context.Context, c *config.Loaded) (from time.Time, err error) {
	open, err := service.OpenGaps(ctx, c)
	if err != nil || len(open) == 0 {
		return from, err
	}
	for i := range open {
		fmt.Fprintln(a.stderr, fault.Printable(open[i].Sentence()))
	}
	from, unknown := gap.Earliest(open)
	if unknown != nil {
		return time.Time{}, (&fault.Error{
			Kind: fault.Operator, Object: fmt.Sprintf("gap %d", unknown.ID),
			Err: errors.New("every row may be one that Kafka does not have, so none is deleted until the gap is " +
				"settled"),
		}).With(gap.Remedy([]gap.Gap{*unknown}))
	}
	from = from.Add(-gap.Before)
	_, err = fmt.Fprintf(a.stderr, "Rows from %s on stay until that is settled. Next: cdc-outbox repair\n",
		human.Time(from))
	return from, err
}

// settleGaps settles the gaps at which a repair has looked.
func (a *app) settleGaps(ctx context.Context, c *config.Loaded, gaps []gap.Gap, r *replay.RepairReport,
	dry bool,
) error {
	switch {
	case len(gaps) == 0:
		return nil
	case r.PassedOver() > 0:
		_, err := fmt.Fprintln(a.stderr,
			"No gap is settled. Next: cdc-outbox repair, without --since, looks at all rows.")
		return err
	case dry && r.Missing() == 0:
		_, err := fmt.Fprintln(a.stderr, "Next: cdc-outbox repair, without --dry-run, settles what is open.")
		return err
	case dry:
		return nil
	}
	if err := service.SettleGaps(ctx, c, gaps, r.Missing(), r.Published); err != nil {
		return err
	}
	for i := range gaps {
		fmt.Fprintf(a.stderr, "Gap %d is settled: %d rows were not in %s, %d were published.\n", gaps[i].ID,
			r.Missing(), r.Broker, r.Published)
	}
	return nil
}

// dismissGap settles a gap by decision.
func (a *app) dismissGap(ctx context.Context, c *config.Loaded, o *repairFlags) error {
	if o.dismiss <= 0 || o.reason == "" {
		return fault.Usage("--dismiss and --reason belong together",
			"name the gap by its number, as `cdc-outbox status` does, and say why; both are kept")
	}
	if err := service.DismissGap(ctx, c, o.dismiss, o.reason); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "Gap %d is dismissed.\n", o.dismiss)
	return err
}
