package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
)

type migratePollingOptions struct {
	published, sequence, unpublished, order string
	wait                                    time.Duration
	dryRun                                  bool
}

func (a *app) migratePollingCommand() *cobra.Command {
	o := migratePollingOptions{}
	cmd := &cobra.Command{
		Use:   "polling",
		Short: "Switch from a relay that polls the outbox to the write-ahead log",
		Long: `polling makes publication and slot, and lists in the slot's own snapshot the rows that are committed
and not published. run then publishes those first and goes on with the log. Writers are not stopped, and nothing is
missing. Nothing comes twice either, unless a relay is frozen or cut off meanwhile: what it had in flight comes when it
wakes up, perhaps after newer events of the same key, so end such a process before you start run.

It takes the configuration that run is to have, with postgres.snapshot: initial. Where cdc-outbox itself polls, its
relays may run meanwhile: they are held at their lanes, and retired when the list is written, by renaming the column
published_at to polled_at; each then stops with exit code 3. If the command fails before, they go on.

For another relay say with --unpublished which rows it has left, and stop it first: what it publishes from then on is
published again.`,
		Example: `  cdc-outbox migrate polling --config cdc-outbox-wal.yaml --dry-run
  cdc-outbox migrate polling --config cdc-outbox-wal.yaml
  cdc-outbox migrate polling --config cdc-outbox-wal.yaml --unpublished 'sent_at IS NULL' --order id`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			return a.migratePolling(cmd.Context(), c, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.published, "published-column", "published_at",
		"column that says what is published, where cdc-outbox polls")
	f.StringVar(&o.sequence, "sequence-column", "seq", "column that counts up, where cdc-outbox polls")
	f.StringVar(&o.unpublished, "unpublished", "", "for another relay: SQL condition for the rows that it has left")
	f.StringVar(&o.order, "order", "",
		"for another relay: column that puts these rows in order; default: the timestamp, then the id")
	f.DurationVar(&o.wait, "wait", time.Minute,
		"how long each step may wait: for what is in flight, for open transactions, for the table's lock")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be done and change nothing")
	return cmd
}

func (a *app) migratePolling(ctx context.Context, c *config.Loaded, o migratePollingOptions) error {
	if c.Source == config.SourcePolling || c.Postgres.Snapshot != "initial" {
		return fault.Usage("migrate polling takes the configuration that run is to have afterwards",
			"set source to wal and postgres.snapshot to initial")
	}
	s, err := wiring.NewTarget(c)
	if err != nil {
		return err
	}
	s.Admin.SlotWait = o.wait
	rows := setup.CutOverRows{Rows: o.unpublished, Order: o.order}
	own := o.unpublished == ""
	if own {
		rows = setup.CutOverRows{Rows: identifier.Quote(o.published) + " IS NULL", Order: o.sequence}
	} else if o.wait <= 0 {
		return fault.Usage("--wait is not positive", "leave it out for a minute")
	}
	table := polling.Setup{Tables: s.Admin.Tables, Columns: polling.Columns{
		Key: c.Router.Roles().AggregateID, Sequence: o.sequence, Published: o.published,
	}}
	if o.dryRun {
		return a.planMigratePolling(ctx, s, rows, own, o.published)
	}
	if own {
		return a.migrateOwnPolling(ctx, s, table, rows, o)
	}
	fmt.Fprintln(a.stderr, "What the other relay publishes from now on is published again: stop it.")
	return a.cutOver(ctx, s, rows)
}

// planMigratePolling prints the known steps: which rows are listed, only the slot's snapshot says.
func (a *app) planMigratePolling(ctx context.Context, s wiring.Target, rows setup.CutOverRows, own bool,
	published string,
) error {
	admin := s.Admin
	admin.Snapshot = true
	steps, err := setup.Plan(ctx, s.DSN, admin)
	if err != nil {
		return err
	}
	if own {
		fmt.Fprintln(a.stdout, "-- All lanes are claimed, so that no relay polls until this is over.")
	}
	if err := a.printSteps(steps); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "-- Listed, to be published by run before anything else: the rows WHERE %s, in that "+
		"snapshot.\n", fault.Printable(rows.Rows))
	for _, t := range s.Admin.Tables {
		if own {
			fmt.Fprintf(a.stdout, "ALTER TABLE %s RENAME COLUMN %s TO %s;\n", t.SQL(), identifier.Quote(published),
				polling.PolledAt)
		}
	}
	return nil
}

func (a *app) migrateOwnPolling(ctx context.Context, s wiring.Target, table polling.Setup, rows setup.CutOverRows,
	o migratePollingOptions,
) error {
	if done, err := polling.Retired(ctx, s.DSN, table, polling.PolledAt); err != nil || done {
		if err == nil {
			_, err = fmt.Fprintln(a.stdout, "-- Everything was done before. Start run.")
		}
		return err
	}
	fmt.Fprintln(a.stderr, "Claiming all lanes; relays that poll wait from here on.")
	b, err := polling.RaiseBarrier(ctx, s.DSN, table, o.wait)
	if err != nil {
		return err
	}
	defer b.Release()
	if err := a.cutOver(ctx, s, rows); err != nil {
		return err
	}
	steps, err := b.Retire(ctx, polling.PolledAt, o.wait)
	if perr := a.printSteps(steps); err == nil {
		err = perr
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, "-- Polling is over. Start run with this configuration. Later, what polling "+
		"needed can go: docs/migrating-from-polling.md")
	return err
}

func (a *app) cutOver(ctx context.Context, s wiring.Target, rows setup.CutOverRows) error {
	steps, listed, err := setup.CutOver(ctx, s.DSN, s.Admin, rows)
	if perr := a.printSteps(steps); err == nil {
		err = perr
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "-- %d rows are listed; run publishes them first.\n\n", listed)
	return err
}
