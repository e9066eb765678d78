package main

import (
	"github.com/cdc-outbox/cdc-outbox/internal/outboxtable"
	"github.com/cdc-outbox/cdc-outbox/internal/progress"
	"github.com/cdc-outbox/cdc-outbox/internal/setup"

	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/identifier"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
)

// caughtUpLimit is how long repair waits for the connector, so that what is still on its way does not count as missing.
const caughtUpLimit = 2 * time.Minute

type repairOptions struct {
	replayOptions
	twice  bool
	since  string
	topics []string
}

func (a *app) repairCommand() *cobra.Command {
	o := repairOptions{replayOptions: replayOptions{skipBad: true}}
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Find the outbox rows that Kafka does not have, and publish them",
		Long: `repair makes records of the rows in the outbox tables as the connector does, looks in their topics for records with the same id, and
publishes those that no topic has, as replay does: with a producer of its own, at a limited rate, with a header "replayed" that holds
the run's id, behind newer events. Their position lies just before the end of the log as of then. The connector has to run
meanwhile; repair waits until it has caught up, so that nothing on its way counts as missing. It takes SELECT on the tables.

Aborted transactions in a topic do not count. A topic that has begun to remove records, or that is compacted, does not tell what was
never in it: then repair publishes nothing, and asks for --since, or for --yes-publish-twice. Rows that lead to no topic are counted:
"cdc-outbox dead-letter list" has those that were put aside. A topic that is missing has none of its rows; to publish them it has to be
made first, unless kafka.topics.create is set: kafka-topics.sh --bootstrap-server BROKER:9092 --create --topic NAME --partitions 12.

A run that ended half-way is begun again: what it published is found in Kafka. Two at once are refused.

Exit codes: 0 done, 1 it failed or was interrupted, 2 the command line is wrong, 3 what is missing is not certain, or could not be published.`,
		Example: `  cdc-outbox repair --dry-run
  cdc-outbox repair --since 2026-01-31T08:00:00Z`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			return a.repair(cmd.Context(), c, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "count what is missing and publish nothing")
	f.StringVar(&o.since, "since", "", "look only at rows from this time on (RFC 3339)")
	f.StringSliceVar(&o.topics, "topics", nil, "look for the records in these topics, too, for instance in those of an earlier router.topic")
	f.BoolVar(&o.twice, "yes-publish-twice", false, "publish what the topics do not hold, although they may have held it")
	f.IntVar(&o.rate, "rate", 1000, "rows a second at most; 0 for no limit")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "how long to wait for Kafka to take 500 rows")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

// repaired is what repair prints for each table.
type repaired struct {
	Table     string   `json:"table"`
	Rows      int64    `json:"rows"`
	Unrouted  int64    `json:"not_routed"` // rows that make no record
	Missing   int64    `json:"missing"`
	Published int64    `json:"published_again"`
	Examples  []string `json:"examples"` // ids
}

func (a *app) repair(ctx context.Context, c *config.Loaded, o *repairOptions) error {
	if err := needsSlot(c, "repair", fmt.Sprintf("Rows of which Kafka has lost the records are published again, behind newer ones, by UPDATE … SET %s = NULL WHERE ….", identifier.Quote(c.Polling.Columns.PublishedAt))); err != nil {
		return err
	}
	s, err := wiring.NewTarget(c)
	if err != nil {
		return err
	}
	if err := needTables(s, "repair"); err != nil {
		return err
	}
	var filter outboxtable.Filter
	if o.since != "" {
		if filter.Since, err = time.Parse(time.RFC3339, o.since); err != nil {
			return fault.Usage("--since is no time", "write it as 2026-01-31T08:00:00Z")
		}
	}
	if o.rate < 0 || o.timeout <= 0 {
		return fault.Usage("--rate and --timeout cannot be negative", "leave them out for 1000 rows a second and a minute")
	}
	r, err := a.newRepairing(ctx, c, s, o, filter)
	if err != nil {
		return err
	}
	defer r.close()
	err = a.find(ctx, c, s, r)
	if err == nil && !o.dryRun {
		err = a.publishMissing(ctx, c, r)
	}
	if ctx.Err() != nil {
		a.left = "Published so far: " + counted(r.state.Rows, "row", "rows") + ". Run it again: it finds them in Kafka, and publishes the rest."
	}
	if r.found { // otherwise there is nothing to tell yet
		if perr := a.printRepair(r); err == nil {
			err = perr
		}
	}
	return err
}

// find decides what is missing. The tables come first, then Kafka: a row that is written in between is no business of this run.
func (a *app) find(ctx context.Context, c *config.Loaded, s wiring.Target, r *repairing) error {
	if err := r.survey(ctx); err != nil {
		return err
	}
	if err := a.awaitConnector(ctx, s, r.o.dryRun); err != nil {
		return err
	}
	doubts, err := a.strikeOff(ctx, c, r)
	if err != nil {
		return err
	}
	r.found = true
	if err := r.name(ctx); err != nil {
		return err
	}
	if len(doubts) == 0 {
		return nil
	}
	if r.options.twice || r.missing() == 0 {
		for _, d := range doubts {
			fmt.Fprintln(a.stderr, d.Error())
		}
		return nil
	}
	return doubts[0]
}

// publishMissing publishes what find has found.
func (a *app) publishMissing(ctx context.Context, c *config.Loaded, r *repairing) (err error) {
	if r.missing() == 0 {
		return nil
	}
	if r.pub, err = a.newPublisher(ctx, c); err != nil {
		return err
	}
	defer r.pub.Close()
	for i := range r.tables {
		if err := r.publish(ctx, i); err != nil {
			return err
		}
	}
	if r.bad > 0 {
		return &fault.Error{Kind: fault.Operator, Object: "repair", Err: fmt.Errorf("%d rows were not published", r.bad), Next: "Their reasons are above."}
	}
	return nil
}

func (a *app) printRepair(r *repairing) error {
	if r.o.asJSON {
		return a.printJSON(r.report)
	}
	for _, t := range r.report {
		fmt.Fprintf(a.stdout, "%s: %d rows, %d of them not in Kafka, %d published again\n", t.Table, t.Rows, t.Missing, t.Published)
		for _, id := range t.Examples {
			fmt.Fprintf(a.stdout, "  %s\n", fault.Printable(id))
		}
		if t.Unrouted > 0 {
			fmt.Fprintf(a.stdout, "  besides, %d rows make no record: `cdc-outbox dead-letter list`, `cdc-outbox replay --all --dry-run`\n", t.Unrouted)
		}
	}
	for _, line := range r.examples {
		fmt.Fprintf(a.stdout, "not published: %s\n", line)
	}
	if r.o.dryRun && r.missing() > 0 {
		fmt.Fprintln(a.stdout, "Next: cdc-outbox repair, with the same flags, publishes what is missing.")
	}
	return nil
}

// awaitConnector waits for what is on its way. Rows that a stopped connector is going to publish would come twice.
func (a *app) awaitConnector(ctx context.Context, s wiring.Target, dryRun bool) error {
	stop := a.progress().Wait(progress.For("the connector to publish what is committed"))
	done, err := setup.AwaitCaughtUp(ctx, s.DSN, s.Admin, caughtUpLimit)
	stop()
	if err != nil || done {
		return err
	}
	if dryRun {
		fmt.Fprintln(a.stderr, "The connector does not run or has not caught up: what it is still going to publish counts as missing here.")
		return nil
	}
	return &fault.Error{
		Kind: fault.Operator, Object: "connector", Err: errors.New("it does not run or has not caught up, so what is missing cannot be told from what it is still going to publish"),
		Next: "Start it, wait until `cdc-outbox status` shows it streaming, then run repair again.",
	}
}
