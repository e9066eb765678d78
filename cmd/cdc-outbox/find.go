package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/find"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/replay"
)

// findFlags are the flags of find.
type findFlags struct {
	key, since  string
	topics      []string
	all, asJSON bool
}

func (a *app) findCommand() *cobra.Command {
	var o findFlags
	cmd := &cobra.Command{
		Use:   "find EVENT_ID",
		Short: "Say where an event is: in the table, in the broker, dead-lettered, or nowhere",
		Long: `find answers "did my event go out?". It looks for the row in the outbox tables, for its record in Kafka
or NATS JetStream, and among the dead letters, and compares the slot with both. With --key it lists the last 20 records
of a key and the rows with this aggregate id. Queues of RabbitMQ cannot be read back, so with "sink: rabbitmq" it is
refused; docs/rabbitmq.md has another way.

The row says in which topic and partition to search, and since when; without a row, a version 7 uuid says since when.
What is not found there is searched for everywhere: without a row and without --topic, in all topics. --since shortens
that.

It reads, and changes nothing. Records of transactions that are open or aborted do not count, as for a consumer with
isolation.level=read_committed.

Exit codes: 0 Kafka has it, 1 it failed, 2 the command line is wrong, 3 Kafka does not have it, or part of the places
could not be searched.`,
		Example: `  cdc-outbox find 018f4d3c-0000-7000-8000-000000000001
  cdc-outbox find 4711 --topic order.events --since 2026-01-31T08:00:00Z
  cdc-outbox find --key order-42 --json | jq .records`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (o.key != "") || len(args) > 1 || len(args) == 1 && args[0] == "" {
				return fault.Usage("find takes one event id, or --key", "cdc-outbox find --help shows examples")
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			id := ""
			if len(args) == 1 {
				id = args[0]
			}
			return a.find(cmd.Context(), c, id, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.key, "key", "", "list the last records with this key instead")
	f.StringVar(&o.since, "since", "", "only records with a timestamp from this time on (RFC 3339)")
	f.StringArrayVar(&o.topics, "topic", nil, "search this topic, too; may be repeated")
	f.BoolVar(&o.all, "all", false, "search on after the first record, for every repeat")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) find(ctx context.Context, c *config.Loaded, id string, o *findFlags) error {
	since, err := replay.ParseTime("--since", o.since)
	if err != nil {
		return err
	}
	db, err := wiring.NewTarget(c)
	if err != nil {
		return err
	}
	broker, err := wiring.Reader(c)
	if err != nil {
		return err
	}
	route, err := routing.NewTo(ctx, c, "")
	if err != nil {
		return err
	}
	opts := find.Options{
		ID: id, Key: o.key, Since: since, Topics: o.topics, All: o.all,
		DSN: db.DSN, Admin: db.Admin, Router: route, Policies: wiring.Policies(c), Reader: broker,
		Replays: wiring.Replays(c),
		Letters: c.Router.DeadLetterTopic, HeaderID: wiring.IDOf(c), Progress: a.progress(), MaxRecords: 20,
		Gaps: wiring.Gaps(c), Placed: routing.ChoosesPartition(c), Converted: routing.ConvertsKeys(c),
	}
	if c.Source != config.SourcePolling {
		slot := wiring.Monitor(c)
		opts.Slot = &slot
	}
	r, err := find.Find(ctx, opts)
	if err != nil {
		return err
	}
	if o.asJSON {
		err = a.printJSON(r)
	} else {
		err = r.Text(a.stdout)
	}
	if err == nil && r.Verdict != find.Published && r.Verdict != find.Superseded {
		err = reported{&fault.Error{Kind: fault.Operator, Object: "find", Err: errors.New(r.Sentence)}}
	}
	return err
}
