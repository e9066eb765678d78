package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
)

func (a *app) teardownCommand() *cobra.Command {
	var dryRun, table, yes, publication bool
	cmd := &cobra.Command{
		Use:   "teardown",
		Short: "Remove slot and publication, and with --table the outbox table",
		Long: `teardown drops the slot, which lets Postgres remove the WAL it held back, then the publication, and
with --table the outbox tables with all events in them. It refuses while a connector reads the slot. Events that were
not published are not published any more, so it asks first, or wants --yes. With source: polling it drops the index,
the trigger and the columns that setup has added.

A publication that another slot of the database may read is kept, because that slot could never be decoded without it.
--drop-publication drops it all the same. The table of postgres.decisions is the record of what operators decided: it is
dropped with --table, unless it holds decisions about other slots. A pause ends in any case.`,
		Example: `  cdc-outbox teardown --dry-run
  cdc-outbox teardown --yes`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			o := teardownOptions{dryRun: dryRun, table: table, yes: yes}
			if c.Source == config.SourcePolling {
				return a.teardownPolling(cmd.Context(), c, o)
			}
			admin, err := wiring.Admin(c, false)
			if err != nil {
				return err
			}
			admin.DropPublication = publication
			return a.teardown(cmd.Context(), c, admin, o)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the SQL and change nothing")
	cmd.Flags().BoolVar(&table, "table", false, "drop the outbox tables too, with the events in them")
	cmd.Flags().BoolVar(&publication, "drop-publication", false,
		"drop the publication although another slot may read it")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

type teardownOptions struct{ dryRun, table, yes bool }

func (a *app) teardown(ctx context.Context, c *config.Loaded, admin setup.Config, o teardownOptions) error {
	dsn, err := wiring.DSN(c)
	if err != nil {
		return err
	}
	return a.tearDown(o, func() ([]setup.Step, error) { return setup.PlanTeardown(ctx, dsn, admin, o.table) },
		func() error { _, err := setup.Teardown(ctx, dsn, admin, o.table); return err })
}

// tearDown shows the plan and carries it out once an operator has said yes.
func (a *app) tearDown(o teardownOptions, plan func() ([]setup.Step, error), do func() error) error {
	steps, err := plan()
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		_, err = fmt.Fprintln(a.stdout, "-- Nothing is there, so there is nothing to do. If that is a surprise, look "+
			"at the names: cdc-outbox config")
		return err
	}
	if err := a.printSteps(steps); err != nil || o.dryRun {
		return err
	}
	if !slices.ContainsFunc(steps, setup.Step.Does) {
		_, err = fmt.Fprintln(a.stdout, "-- Nothing to do.")
		return err
	}
	if !o.yes {
		if err := a.confirm("Do this? Events that were not published are lost to the connector. [y/N] "); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.stdout, "-- Done.")
	return err
}

// confirm asks a person. Without one it refuses: a script says --yes.
func (a *app) confirm(question string) error {
	if !terminal(a.stdin) {
		return fault.Usage("teardown needs an operator to say yes", "add --yes, or --dry-run to look only")
	}
	fmt.Fprint(a.stderr, question)
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		return &fault.Error{Kind: fault.Fatal, Object: "teardown", Err: err}
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return &fault.Error{Kind: fault.Fatal, Object: "teardown", Err: errors.New("nothing was done")}
}
