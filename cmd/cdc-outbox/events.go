package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/schemaregistry"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/catalogue"
)

type eventsFlags struct {
	last     int
	asJSON   bool
	asyncAPI bool
	title    string
	offline  bool
}

func (a *app) eventsCommand() *cobra.Command {
	o := eventsFlags{last: 10_000}
	cmd := &cobra.Command{
		Use:   "events",
		Short: "List the types of events with topic, schema and consumers, from the latest rows",
		Long: `events reads the latest rows of the outbox tables, builds their records as the relay does, and lists the
types of events: topic, schema of the registry, number of rows, when the last one was committed. From Kafka it lists the
consumer groups that have read these topics, with their lag. It changes nothing.

--asyncapi prints an AsyncAPI 3 document of the same facts.

Exit codes: 0 it was listed, 1 it failed, 2 the command line is wrong, 3 the tables have no rows.`,
		Example: `  cdc-outbox events
  cdc-outbox events --asyncapi --title "Order service" > asyncapi.json
  cdc-outbox events --json | jq '.consumers[] | select(.lag > 1000)'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.last < 1 || o.asJSON && o.asyncAPI {
				return fault.Usage("--last takes a number above 0, and --json goes without --asyncapi",
					cmd.CommandPath()+" --help")
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			return a.events(cmd.Context(), c, &o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.last, "last", o.last, "how many of the latest rows of each table")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	f.BoolVar(&o.asyncAPI, "asyncapi", false, "print an AsyncAPI document, in JSON")
	f.StringVar(&o.title, "title", "Outbox events", "title of the AsyncAPI document")
	f.BoolVar(&o.offline, "no-consumers", false, "do not ask the broker")
	return cmd
}

func (a *app) events(ctx context.Context, c *config.Loaded, o *eventsFlags) error {
	p, err := service.PreviewOptions(ctx, c)
	if err != nil {
		return err
	}
	if err := needTables(wiring.Target{DSN: p.DSN, Admin: p.Admin}, "events"); err != nil {
		return err
	}
	route := p.Router
	opts := catalogue.Options{
		Preview: p, Last: o.last, Type: c.Router.Roles().Type,
		Known: func() []schemaregistry.Known { return routing.KnownSchemas(route) },
	}
	if !o.offline {
		if opts.Reader, err = wiring.Reader(c); err != nil {
			return err
		}
	}
	found, err := catalogue.Build(ctx, opts)
	switch {
	case err != nil:
		return err
	case o.asJSON:
		return a.printJSON(found)
	case o.asyncAPI:
		return a.printJSON(found.AsyncAPI(o.title, version, c.Sink == config.SinkKafka))
	}
	return found.Text(a.stdout)
}
