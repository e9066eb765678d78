package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/schemaregistry"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/schemacheck"
)

func (a *app) schemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "schema",
		Short:   "Compare schemas with the schema registry before they are registered",
		Long:    `The command below it is for the CI of a service that writes events.`,
		Example: "  cdc-outbox schema check schemas/",
		Args:    knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fault.Usage("no command is named", cmd.CommandPath()+" --help lists the commands")
		},
	}
	cmd.AddCommand(a.schemaCheckCommand())
	return cmd
}

type schemaFlags struct {
	subject string
	rows    int
	asJSON  bool
}

func (a *app) schemaCheckCommand() *cobra.Command {
	o := schemaFlags{rows: 100}
	cmd := &cobra.Command{
		Use:   "check FILE|DIR...",
		Short: "Try schemas with the registry and the latest rows, before they are registered",
		Long: `check reads schemas from files (.avsc, .json, .proto), and asks the registry of router.registry.url
whether each is compatible with its subject: the file's name without the ending, such as order.events-value.avsc. A
schema may refer to what the latest version of its subject refers to. Nothing is registered.

With router.registry.encode it also encodes the latest rows that ask for the latest version of these subjects, and
names the member of the first row that does not fit. --rows 0 needs no database.

Exit codes: 0 every schema fits, 1 it failed, 2 the command line is wrong, 3 a schema is not compatible, cannot be used
by the relay, or does not fit a row.`,
		Example: `  cdc-outbox schema check schemas/
  cdc-outbox schema check order.avsc --subject order.events-value --rows 0
  cdc-outbox schema check schemas/ --json | jq '.[] | select(.compatible | not)'`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			if len(paths) == 0 || o.rows < 0 {
				return fault.Usage("check takes files or directories, and --rows a number from 0",
					cmd.CommandPath()+" --help")
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			return a.schemaCheck(cmd.Context(), c, paths, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.subject, "subject", "", "subject of the schema, with one file")
	f.IntVar(&o.rows, "rows", o.rows, "how many of the latest rows of each table to encode")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) schemaCheck(ctx context.Context, c *config.Loaded, paths []string, o *schemaFlags) error {
	if c.Router.Registry.URL == "" {
		return &fault.Error{
			Kind: fault.Config, Object: "router.registry.url", Err: errors.New("is not set"),
			Next: "Set it to the address of the schema registry; see docs/schema-registry.md.",
		}
	}
	files, err := schemacheck.Read(paths, o.subject)
	if err != nil {
		return err
	}
	opts := schemacheck.Options{Last: o.rows, Schemas: schemacheck.NewSchemas()}
	if opts.Registry, err = routing.RegistryClient(c); err != nil {
		return err
	}
	if c.Router.Registry.Encode && o.rows > 0 {
		p, err := service.PreviewTables(c)
		if err != nil {
			return err
		}
		if p.Router, err = routing.New(c, opts.Schemas); err != nil {
			return err
		}
		if len(p.Admin.Tables) > 0 { // otherwise events are in the log only
			opts.Preview = &p
		}
	}
	results, err := schemacheck.Check(ctx, opts, files)
	var unanswered *schemaregistry.Error
	if errors.As(err, &unanswered) {
		return unanswered.Fault()
	}
	if err != nil {
		return err
	}
	return a.schemasChecked(results, o)
}

func (a *app) schemasChecked(results []schemacheck.Result, o *schemaFlags) error {
	unfit := 0
	for i := range results {
		if !results[i].Fits() {
			unfit++
		}
		if !o.asJSON {
			fmt.Fprint(a.stdout, results[i].Text(a.style()))
		}
	}
	if o.asJSON {
		if err := a.printJSON(results); err != nil {
			return err
		}
	}
	if unfit == 0 {
		return nil
	}
	return &fault.Error{
		Kind: fault.Operator, Object: "schema check",
		Err: fmt.Errorf("%d of %s not fit", unfit, human.Counted(len(results), "schema does", "schemas do")),
	}
}
