package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
)

func (a *app) setupCommand() *cobra.Command {
	var dryRun, table, existing, newSlot bool
	var role string
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Create publication and slot, and with --table the outbox table",
		Long: `setup creates what the connector needs in Postgres and is not there yet: with --table the outbox table,
with --role the connector's role and its privileges, the publication, and last the slot. Run it as a role that may do
that; the connector itself then needs no more than --role is given. What is there already is left alone. A publication
whose slot no longer exists is a lost slot: setup refuses to make another one, because the events in between would be
missing. Where a second relay is to read a publication that is there already, say so with --new-slot.

With source: polling it adds the columns, the index and, where polling.notify is set, the trigger that polling needs.`,
		Example: `  cdc-outbox setup --table --role cdc_outbox --dry-run
  cdc-outbox setup --postgres-dsn 'postgres://owner@db/shop'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			if c.Source == config.SourcePolling {
				return a.setupPolling(cmd.Context(), c, pollingSetupOptions{
					table: table, dryRun: dryRun, publishExisting: existing, role: role,
				})
			}
			if existing {
				return fault.Usage("--publish-existing is for source: polling", "set postgres.snapshot to initial")
			}
			admin, err := wiring.Admin(c, table)
			if err != nil {
				return err
			}
			admin.Role, admin.NewSlot = role, newSlot
			if dryRun {
				return a.planSetup(cmd.Context(), c, admin)
			}
			return a.setup(cmd.Context(), c, admin)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the SQL and change nothing")
	cmd.Flags().BoolVar(&table, "table", false, "create the outbox table where it is missing")
	cmd.Flags().BoolVar(&newSlot, "new-slot", false,
		"create the slot although the publication exists: the slot is new, and no event was ever read through it")
	cmd.Flags().BoolVar(&existing, "publish-existing", false,
		"with source: polling, publish the rows that are in the table already")
	cmd.Flags().StringVar(&role, "role", "", "role to create and to give what the connector needs, and nothing more")
	return cmd
}

// planSetup prints the steps of setup. Without a server it prints the steps for an empty database: the person who asks
// for the SQL may not be able to connect.
func (a *app) planSetup(ctx context.Context, c *config.Loaded, admin setup.Config) error {
	dsn, err := wiring.DSN(c)
	if err != nil {
		return err
	}
	steps, err := setup.Plan(ctx, dsn, admin)
	if err != nil && fault.KindOf(err) == fault.Retry && ctx.Err() == nil {
		fmt.Fprintf(a.stderr, "cdc-outbox: %v\nThe server could not be asked, so this is what an empty "+
			"database needs.\n", err)
		steps, err = setup.Script(admin), nil
	}
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		// The person who pastes the SQL has to know that it will not do as it is.
		if perr := a.printComment(err); perr != nil {
			return perr
		}
	} else if len(steps) == 0 {
		_, err = fmt.Fprintln(a.stdout, "-- Everything is there; nothing to do.")
		return err
	}
	if perr := a.printSteps(steps); perr != nil {
		return perr
	}
	return err
}

func (a *app) setup(ctx context.Context, c *config.Loaded, admin setup.Config) error {
	dsn, err := wiring.DSN(c)
	if err != nil {
		return err
	}
	done, err := setup.Run(ctx, dsn, admin)
	if perr := a.printSteps(done); err == nil {
		err = perr
	}
	if err != nil {
		return err
	}
	what := "-- Done."
	if len(done) == 0 {
		what = "-- Everything was there; nothing was done."
	}
	what += "\n-- Next: cdc-outbox check"
	_, err = fmt.Fprintln(a.stdout, what)
	return err
}

// printComment prints an obstacle above the SQL.
func (a *app) printComment(err error) error {
	sentence, remedy := fault.Split(err)
	var b strings.Builder
	for _, line := range append([]string{"This would fail: " + sentence}, remedy.Lines()...) {
		b.WriteString(strings.TrimRight("-- "+strings.TrimPrefix(line, "-- "), " ") + "\n")
	}
	_, err = fmt.Fprintln(a.stdout, b.String())
	return err
}

// printSteps prints SQL with its reasons as comments, so that it can be pasted.
func (a *app) printSteps(steps []setup.Step) error {
	var b strings.Builder
	for _, s := range steps {
		for line := range strings.Lines(s.Why) {
			b.WriteString("-- " + strings.TrimRight(line, "\n") + "\n")
		}
		b.WriteString(strings.TrimRight(s.SQL, "\n") + "\n\n")
	}
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}
