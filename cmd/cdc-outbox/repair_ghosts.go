package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/replay"
)

// findGhosts lists the published events whose rows do not exist.
func (a *app) findGhosts(ctx context.Context, c *config.Loaded, o *repairFlags) error {
	if err := needsSlot(c, "repair --ghosts", "A polling relay reads only rows that can be seen."); err != nil {
		return err
	}
	if o.twice {
		return fault.Usage("--ghosts publishes nothing", "leave out --yes-publish-twice")
	}
	if len(c.Postgres.Messages) > 0 {
		return &fault.Error{
			Kind: fault.Config, Object: "postgres.messages",
			Err: errors.New("events that are emitted as messages have no row, so events without one say nothing"),
		}
	}
	db, err := wiring.NewTarget(c)
	if err != nil {
		return err
	}
	if err := needTables(db, "repair"); err != nil {
		return err
	}
	since, err := replay.ParseTime("--since", o.since)
	if err != nil {
		return err
	}
	broker, err := wiring.Reader(c)
	if err != nil {
		return err
	}
	topics, err := wiring.Topics(c, db.DSN, db.Admin.Tables).All(ctx, "--topics")
	if err != nil && len(o.topics) == 0 {
		return err
	}
	topics = append(topics, o.topics...)
	slices.Sort(topics)
	r, err := replay.FindGhosts(ctx, replay.GhostOptions{
		Topics: slices.Compact(topics), Since: since, DSN: db.DSN, Admin: db.Admin, Reader: broker,
		Progress: a.progress(),
	})
	if err != nil {
		return err
	}
	if err := a.printGhosts(r, o.asJSON); err != nil {
		return err
	}
	return r.Err(service.Runbook(c, "events-without-a-row-after-a-failover"))
}

func (a *app) printGhosts(r *replay.GhostReport, asJSON bool) error {
	if asJSON {
		return a.printJSON(r)
	}
	fmt.Fprintf(a.stdout, "%d events of rows after %s, %d of them without a row\n", r.Judged,
		human.Time(r.From), len(r.Ghosts))
	for _, g := range r.Ghosts {
		fmt.Fprintf(a.stdout, "  %s  %s, %s\n", fault.Printable(g.ID), r.Place(g), human.Stamp(g.Time))
	}
	for _, rest := range []struct {
		n   int64
		why string
	}{
		{r.Earlier, "are of earlier rows, which may have been deleted"},
		{r.WithoutID, "have no id"},
		{r.AppendTime, "have the time of the broker, not of the row; --since judges them by it"},
	} {
		if rest.n > 0 {
			fmt.Fprintf(a.stdout, "not judged: %s, which %s\n", human.Counted(rest.n, "record", "records"), rest.why)
		}
	}
	return nil
}
