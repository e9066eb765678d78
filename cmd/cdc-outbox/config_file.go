package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/docs"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/inventory"
)

func (a *app) configSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of the configuration file",
		Example: "  cdc-outbox config schema > cdc-outbox.schema.json",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.stdout.Write(docs.ConfigurationSchema)
			return err
		},
	}
}

func (a *app) configValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Report every problem of the configuration, and connect to nothing",
		Long: `validate reads the configuration as run does: the file, the variables and the flags. It reports all
problems at once, with the line of each, and exits with code 2. Files that hold secrets have to exist, as for run.`,
		Example: `  cdc-outbox config validate cdc-outbox.yaml`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if err := cmd.Flags().Set(config.FlagConfig, args[0]); err != nil {
					return err
				}
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			for _, w := range c.Warnings {
				fmt.Fprintln(a.stderr, "warning: "+w)
			}
			_, err = fmt.Fprintln(a.stdout, "The configuration has no mistake. Next: cdc-outbox check")
			return err
		},
	}
}

func (a *app) configInitCommand() *cobra.Command {
	var table, output string
	var force bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a first configuration file, from what the database has",
		Long: `init asks the database for tables that look like an outbox, their columns, its slots and publications,
and writes a file with comments. It changes nothing in the database, and overwrites no file without --force.`,
		Example: `  cdc-outbox config init --postgres-dsn 'postgres://owner@db/shop'
  cdc-outbox config init --table sales.outbox --output -`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			db, err := wiring.NewTarget(c)
			if err != nil {
				return err
			}
			text, err := inventory.Propose(cmd.Context(), db.DSN, table)
			if err != nil || output == "-" {
				fmt.Fprint(a.stdout, text)
				return err
			}
			if err := inventory.Save(output, text, force); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "Wrote %[1]s. Next: cdc-outbox setup --dry-run --config %[1]s\n", output)
			return err
		},
	}
	cmd.Flags().StringVar(&table, "table", "", "the outbox table; without it, the likeliest one")
	cmd.Flags().StringVar(&output, "output", "cdc-outbox.yaml", "file to write, - for the standard output")
	cmd.Flags().BoolVar(&force, "force", false, "overwrite the file")
	return cmd
}
