package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/replay"
)

type repairFlags struct {
	replay.Pace
	twice, asJSON bool
	ghosts        bool
	since         string
	dismiss       int64
	reason        string
	topics        []string
}

func (a *app) repairCommand() *cobra.Command {
	var o repairFlags
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Find the outbox rows that the broker does not have, and publish them",
		Long: `repair makes records of the rows in the outbox tables as the connector does, looks in their topics for
records with the same id, and publishes the records that no topic has, as replay does: with a producer of its own, at
a limited rate, with a header "replayed" that holds the run's id, after newer events. Their position lies just before
the end of the log as of then. The connector has to run meanwhile, and not to be paused; repair waits until it has
caught up, so that nothing in flight counts as missing. It takes SELECT on the tables.

Aborted transactions in a topic do not count. A topic that has begun to remove records does not show what was never in
it: if the record of a missing row may have been removed, repair publishes nothing, counts these rows, and asks for
--since, or for --yes-publish-twice. In a compacted topic a row is accounted for by a record of its key that is not
older, by their timestamps, and of a key without one only the newest event is published. A record accounts for all rows
with its id, and rows with the id of another row are counted. Rows that lead to no topic are counted: "cdc-outbox
dead-letter list" has the rows that were dead-lettered. A topic that is missing has none of its rows; to publish them it
has to be made first, unless kafka.topics.create is set:
kafka-topics.sh --bootstrap-server BROKER:9092 --create --topic NAME --partitions 12.

With "sink: nats" it compares, and settles gaps in which nothing is missing; it publishes nothing, since the connector
is the stream's only writer. With "sink: rabbitmq", which cannot be read back, only --dismiss works.

With --ghosts it looks in the other direction, and only reads: it lists the events in the topics whose rows the tables
do not have, such as events that a failover to a standby took back. Rows must be kept for that: it judges events that
are newer than the oldest row, or than --since. "prune" deletes by age, so what it deleted is not listed; rows that are
deleted in another way are. It reads the topics that rows lead to, and the topics of --topics.

Without --since, while gaps in the stream are open ("cdc-outbox status" lists them), it looks at the rows from an hour
before the first of them on, and at all rows if some have no time; a row's time is that of the timestamp column, which
may be earlier than the commit. A run that covers a gap, and publishes all that is missing, settles it, unless it passed
over rows without a time. --dismiss settles one by decision instead.

A run that was interrupted is begun again: what it published is found in Kafka. Two at once are refused.

Exit codes: 0 done, 1 it failed or was interrupted, 2 the command line is wrong, 3 what is missing is not certain, or
could not be published; with --ghosts, 3 some were found, or the tables do not show it.`,
		Example: `  cdc-outbox repair --dry-run
  cdc-outbox repair --since 2026-01-31T08:00:00Z
  cdc-outbox repair --ghosts
  cdc-outbox repair --dismiss 3 --reason 'these events were sent by hand'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("dismiss") || o.reason != "" {
				return a.dismissGap(cmd.Context(), c, &o)
			}
			if o.ghosts {
				return a.findGhosts(cmd.Context(), c, &o)
			}
			return a.repair(cmd.Context(), c, &o)
		},
	}
	o.define(cmd.Flags())
	return cmd
}

func (o *repairFlags) define(f *pflag.FlagSet) {
	f.BoolVar(&o.DryRun, "dry-run", false, "count what is missing and publish nothing")
	f.BoolVar(&o.ghosts, "ghosts", false, "list events in the topics that have no row, and publish nothing")
	f.StringVar(&o.since, "since", "", "look only at rows from this time on (RFC 3339)")
	f.StringSliceVar(&o.topics, "topics", nil,
		"look for the records in these topics, too, for instance in the topics of an earlier router.topic")
	f.BoolVar(&o.twice, "yes-publish-twice", false,
		"publish what the topics do not hold, although they may have held it")
	f.Int64Var(&o.dismiss, "dismiss", 0, "settle the gap of this number without looking, by decision")
	f.StringVar(&o.reason, "reason", "", "why the gap is dismissed, for the record")
	f.IntVar(&o.Rate, "rate", 1000, "rows a second at most; 0 for no limit")
	f.DurationVar(&o.Timeout, "timeout", time.Minute, "how long to wait for Kafka to take 500 rows")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
}

func (a *app) repair(ctx context.Context, c *config.Loaded, o *repairFlags) error {
	if err := needsSlot(c, "repair",
		fmt.Sprintf("Rows of which Kafka has lost the records are published again, after newer records, "+
			"by UPDATE … SET %s = NULL WHERE ….", identifier.Quote(c.Polling.Columns.PublishedAt))); err != nil {
		return err
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
	if err := checkPace(o.Pace); err != nil {
		return err
	}
	broker, err := wiring.Reader(c)
	if err != nil {
		return err
	}
	producer, err := wiring.Replaying(c)
	if err != nil {
		return err
	}
	route, err := routing.NewTo(ctx, c, "")
	if err != nil {
		return err
	}
	gaps, err := a.gapsToRepair(ctx, c, db, &since)
	if err != nil {
		return err
	}
	r, err := replay.Repair(ctx, replay.RepairOptions{
		Pace: o.Pace, Run: newRunID(), Since: since, Topics: o.topics, Twice: o.twice,
		DSN: db.DSN, Admin: db.Admin, Reader: broker, Kafka: producer, Router: route, Progress: a.progress(),
		Letters: c.Router.DeadLetterTopic, HeaderID: wiring.IDOf(c), Skipped: wiring.Decisions(c).Skipped,
		Paused: wiring.Decisions(c).Paused,
	})
	if r == nil {
		return err
	}
	if ctx.Err() != nil {
		a.left = "Published so far: " + human.Counted(r.Published, "row", "rows") +
			". Run it again: it finds them in the broker, and publishes the rest."
	}
	if r.Found { // otherwise there is nothing to tell yet
		if perr := a.printRepair(r, o); err == nil {
			err = perr
		}
		if err == nil {
			err = a.settleGaps(ctx, c, gaps, r, o.DryRun)
		}
	}
	return err
}

func (a *app) printRepair(r *replay.RepairReport, o *repairFlags) error {
	if o.asJSON {
		return a.printJSON(r.Tables)
	}
	for _, t := range r.Tables {
		fmt.Fprintf(a.stdout, "%s: %d rows, %d of them not in %s, %d published again\n", t.Table, t.Rows, t.Missing,
			r.Broker, t.Published)
		for _, id := range t.Examples {
			fmt.Fprintf(a.stdout, "  %s\n", fault.Printable(id))
		}
		if more := t.Missing - int64(len(t.Examples)); len(t.Examples) > 0 && more > 0 {
			fmt.Fprintf(a.stdout, "  and %s more\n", human.Count(more))
		}
		if t.Unproven > 0 {
			fmt.Fprintf(a.stdout, "  %s of them may have been published: %s has removed records that may be as new\n",
				human.Count(t.Unproven), r.Broker)
		}
		if t.Lettered > 0 {
			fmt.Fprintf(a.stdout, "  besides, %s: `cdc-outbox dead-letter list`\n",
				human.Counted(t.Lettered, "row is a dead letter", "rows are dead letters"))
		}
		if t.Skipped > 0 {
			fmt.Fprintf(a.stdout, "  besides, %s by decision: `cdc-outbox row list`\n",
				human.Counted(t.Skipped, "row was skipped", "rows were skipped"))
		}
		if t.Superseded > 0 {
			fmt.Fprintf(a.stdout, "  besides, %s by newer events of their keys in compacted topics\n",
				human.Counted(t.Superseded, "row is superseded", "rows are superseded"))
		}
		if t.SameID > 0 {
			fmt.Fprintf(a.stdout, "  besides, %s, and one record accounts for all of them: consumers take the others "+
				"for repeats. `cdc-outbox check` has the statement that lists them\n",
				human.Counted(t.SameID, "row has the id of another row", "rows have the ids of other rows"))
		}
		if t.Untimed > 0 && r.PassedOver() > 0 {
			fmt.Fprintf(a.stdout, "  besides, %s no time, so they were not looked at: leave --since out\n",
				human.Counted(t.Untimed, "row has", "rows have"))
		}
		if t.Unrouted > 0 {
			fmt.Fprintf(a.stdout, "  besides, %s no record: `cdc-outbox dead-letter list`, `cdc-outbox "+
				"replay --all --dry-run`\n", human.Counted(t.Unrouted, "row makes", "rows make"))
		}
	}
	for _, line := range r.Examples {
		fmt.Fprintf(a.stdout, "not published: %s\n", line)
	}
	if o.DryRun && r.Missing() > 0 && r.Publishes {
		fmt.Fprintln(a.stdout, "Next: cdc-outbox repair, with the same flags, publishes what is missing.")
	}
	return nil
}
