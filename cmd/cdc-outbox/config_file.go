package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/docs"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
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
	var output string
	var w inventory.Wishes
	var force bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a first configuration file, from what the database has",
		Long: `init asks the database for tables that look like an outbox, their columns, its slots and publications,
and writes a file with comments. It changes nothing in the database, and overwrites no file without --force.

Where no column is the record's key by its name, init asks for it on a terminal. Without one, or without an answer, the
file leaves it open, and no command takes the file before it is decided; --key decides it beforehand.`,
		Example: `  cdc-outbox config init --postgres-dsn 'postgres://owner@db/shop'
  cdc-outbox config init --table sales.outbox --output -
  cdc-outbox config init --table 'public."OutboxMessages"' --key Content/orderId`,
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
			if terminal(a.stdin) {
				w.Ask = a.ask
			}
			text, err := inventory.Propose(cmd.Context(), db.DSN, w)
			if err != nil || output == "-" {
				fmt.Fprint(a.stdout, text)
				return err
			}
			if err := inventory.Save(output, text, force); err != nil {
				return err
			}
			next := "cdc-outbox setup --dry-run --config " + output
			if strings.Contains(text, "\n"+config.Undecided+":\n") {
				next = "decide what the file lists under " + config.Undecided
			}
			_, err = fmt.Fprintf(a.stdout, "Wrote %s. Next: %s\n", output, next)
			return err
		},
	}
	cmd.Flags().StringVar(&w.Table, "table", "", "the outbox table; without it, the likeliest one")
	cmd.Flags().StringVar(&w.Key, "key", "",
		"column of the record's key, or COLUMN/MEMBER of a column that holds JSON")
	cmd.Flags().StringVar(&output, "output", "cdc-outbox.yaml", "file to write, - for the standard output")
	cmd.Flags().BoolVar(&force, "force", false, "overwrite the file")
	return cmd
}

// ask asks a person for one line, again while the answer is not valid. The end of the input is an empty answer.
func (a *app) ask(question string, valid func(answer string) error) (string, error) {
	fmt.Fprintln(a.stderr, question)
	for in := bufio.NewScanner(a.stdin); ; {
		fmt.Fprint(a.stderr, "Column, or Enter to leave it open: ")
		if !in.Scan() {
			return "", in.Err()
		}
		answer := strings.TrimSpace(in.Text())
		if answer == "" {
			return "", nil
		}
		err := valid(answer)
		if err == nil {
			return answer, nil
		}
		why, remedy := fault.Split(err)
		fmt.Fprintln(a.stderr, why+". "+remedy.Next)
	}
}
