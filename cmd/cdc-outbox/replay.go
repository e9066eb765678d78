package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/replay"
)

// replayFlags are the flags of replay.
type replayFlags struct {
	replay.Choice
	replay.Pace
	all, asJSON   bool
	intoCompacted bool
	resume        string
}

func (a *app) replayCommand() *cobra.Command {
	var o replayFlags
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Publish rows of the outbox once more, beside the connector",
		Long: `replay reads rows of the outbox tables, makes records of them as the connector does, and publishes them
with a producer of its own, after newer events of their keys where the connector has published such. It changes
nothing in Postgres and neither needs nor disturbs the connector. Rows are chosen by aggregate type, aggregate id,
event id and the timestamp column; a flag may be repeated, and different flags narrow the choice together.

--from-position and --to-position choose by the place in the log that the header position has. The table does not know
it, so the topics are read for it, from end to end, and the rows of the ids that are found there are published; their
order is that of the log then, per partition. A transaction is chosen by the LSN of its commit, given as both;
transaction ids are nowhere kept.

A compacted topic is refused without --into-compacted: of each key it keeps the last record, so an event that is
published again replaces a newer one for good. "cdc-outbox repair" publishes what such a topic lacks.

Records keep the event's id, so an inbox that has handled it passes over it, and get a header "replayed" with the
run's id. Their order is that of the timestamp column, then of the id: per aggregate the order of the original where
transactions that write to the same aggregate do not overlap. The position header says 0000000000000000- and the
number within the run: before every position of the log, whose own the table does not know.

--topic has to exist, unless kafka.topics.create is set, which makes it as kafka.topics says; so have the rows' own.
To make one: kafka-topics.sh --bootstrap-server BROKER:9092 --create --topic NAME --partitions 12. A dry run does not
look for it.

With --resume FILE the run's state is kept in the file; the same command goes on from there. What was in flight when
it was killed, 500 rows at most, is published again. While a process runs with the file, a second one of the same
machine ends at once. Without --until, rows from after the start are left to the connector.

Exit codes: 0 all is published, 1 it failed or was interrupted, 2 the command line is wrong, 3 something could not be
published; what and why is said.`,
		Example: `  cdc-outbox replay --aggregate-type order --dry-run \
    --since 2026-01-31T08:00:00Z --until 2026-01-31T09:00:00Z
  cdc-outbox replay --aggregate-type order --aggregate-id 42 --aggregate-id 43
  cdc-outbox replay --from-position 0/16B374D8 --to-position 0000000016b39000-00000003
  cdc-outbox replay --from-archive public.outbox-20260131T080000Z-abcdefgh-0000.jsonl.zst --topic order.events.rebuilt
  cdc-outbox replay --all --topic order.events.rebuilt --rate 5000 --resume replay.state`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			return a.replay(cmd.Context(), c, &o)
		},
	}
	o.register(cmd.Flags())
	return cmd
}

func (o *replayFlags) register(f *pflag.FlagSet) {
	f.StringArrayVar(&o.Types, "aggregate-type", nil, "only rows of this aggregate type; may be repeated")
	f.StringArrayVar(&o.AggregateIDs, "aggregate-id", nil, "only rows of this aggregate; may be repeated")
	f.StringArrayVar(&o.IDs, "id", nil, "only the event with this id; may be repeated")
	f.StringVar(&o.Since, "since", "", "only rows from this time on (RFC 3339), by the timestamp column")
	f.StringVar(&o.Until, "until", "",
		"only rows from before this time; the start of the run unless rows are named by --id")
	f.StringVar(&o.FromPosition, "from-position", "",
		"only events from this position on, as the header position has it, or the LSN of a commit")
	f.StringVar(&o.ToPosition, "to-position", "", "only events up to this position, which is included")
	f.StringArrayVar(&o.FromTopics, "from-topic", nil,
		"where to find the positions; may be repeated; the topics to which the rows in the tables lead, unless given")
	f.BoolVar(&o.all, "all", false, "every row, where nothing else chooses")
	f.StringArrayVar(&o.Files, "from-archive", nil,
		"rows of this file that prune --archive has written, not the table's; may be repeated")
	f.StringVar(&o.Topic, "topic", "", "publish to this topic, which has to exist or kafka.topics.create to be set, "+
		"instead of the rows' own")
	f.IntVar(&o.Rate, "rate", 1000, "rows a second at most; 0 for no limit")
	f.StringVar(&o.resume, "resume", "", "keep the state of the run in this file, and go on from it")
	f.BoolVar(&o.DryRun, "dry-run", false, "route the rows and count them per topic, and publish nothing")
	f.BoolVar(&o.SkipBad, "skip-bad-rows", false,
		"pass over rows that cannot be published instead of stopping at them, and list them")
	f.BoolVar(&o.intoCompacted, "into-compacted", false, intoCompactedUsage)
	f.DurationVar(&o.Timeout, "timeout", time.Minute, "how long to wait for Kafka to take 500 rows")
	f.BoolVar(&o.asJSON, "json", false, "print the summary as JSON")
}

// intoCompactedUsage is what the flag does, also for dead-letter retry.
const intoCompactedUsage = "also into compacted topics: the event becomes the last record of its key, and Kafka " +
	"removes a newer one for good"

func (o *replayFlags) check() error {
	if err := o.Check(o.all); err != nil {
		return err
	}
	if err := checkPace(o.Pace); err != nil {
		return err
	}
	if o.DryRun && o.resume != "" {
		return fault.Usage("--dry-run saves no state", "leave --resume out")
	}
	return nil
}

func checkPace(p replay.Pace) error {
	if p.Rate < 0 || p.Timeout <= 0 {
		return fault.Usage("--rate and --timeout cannot be negative",
			"leave them out for 1000 rows a second and a minute")
	}
	return nil
}

func (a *app) replay(ctx context.Context, c *config.Loaded, o *replayFlags) error {
	db, err := wiring.NewTarget(c)
	if err != nil {
		return err
	}
	if err := needTables(db, "replay"); err != nil && len(o.Files) == 0 {
		return err
	}
	unplaced := c.Source == config.SourcePolling
	if o.ByPosition() && unplaced {
		return fault.Usage("a relay that polls gives records no position", "choose by time: --since and --until")
	}
	producer, err := wiring.Kafka(c)
	if err != nil {
		return err
	}
	route, err := routing.NewTo(ctx, c, o.Topic)
	if err != nil {
		return err
	}
	r, err := replay.Run(ctx, replay.Options{
		Choice: o.Choice, Pace: o.Pace, Run: newRunID(), Resume: o.resume,
		DSN: db.DSN, Admin: db.Admin, Kafka: producer, Router: route, Unplaced: unplaced,
		Topics: wiring.Topics(c, db.DSN, db.Admin.Tables), HeaderID: wiring.IDOf(c),
		HeaderBytes: wiring.HeaderBytes(c), IntoCompacted: o.intoCompacted, Progress: a.progress(),
	})
	if r == nil || err != nil && r.Rows == 0 && ctx.Err() == nil { // it could not look, which is not "0 rows"
		return err
	}
	if perr := a.printReplay(r, o.asJSON); err == nil {
		err = perr
	}
	switch {
	case err == nil || o.DryRun || r.Done:
	case ctx.Err() != nil:
		a.left = replayLeaves(r, o.resume)
	case o.resume != "":
		fmt.Fprintf(a.stderr, "Published so far: %d rows. The same command goes on from there.\n", r.Rows)
	}
	return err
}

// newRunID sorts by time.
func newRunID() string {
	return time.Now().UTC().Format("20060102T150405Z") + "-" + strings.ToLower(rand.Text()[:8])
}

// replayLeaves is an interrupted run's result.
func replayLeaves(r *replay.Report, resume string) string {
	done := "Published so far: " + human.Counted(r.Rows, "row", "rows") + ". "
	switch {
	case r.Rows == 0:
		return done + "It can be run again."
	case resume != "":
		return done + "The same command goes on from there."
	}
	return done + "Run again it begins at the first row, and publishes these once more; with --resume FILE it could " +
		"have continued."
}

func (a *app) printReplay(r *replay.Report, asJSON bool) error {
	if asJSON {
		return a.printJSON(r)
	}
	what, not := "published", "not published"
	if r.DryRun {
		what, not = "would be published", "cannot be published"
	}
	for _, name := range slices.Sorted(maps.Keys(r.Topics)) {
		fmt.Fprintf(a.stdout, "%s: %d records %s, %d bytes\n", name, r.Topics[name].Records, what, r.Topics[name].Bytes)
	}
	for _, line := range r.Examples {
		fmt.Fprintf(a.stdout, "%s: %s\n", not, line)
	}
	_, err := fmt.Fprintf(a.stdout, "run %s: %s %s, %d %s\n", r.Run, human.Counted(r.Rows, "row", "rows"), what,
		r.Unpublish,
		not)
	return err
}

// needTables refuses a command that reads tables if there are none: a message that was emitted is in no table.
func needTables(s wiring.Target, command string) error {
	if len(s.Admin.Tables) > 0 {
		return nil
	}
	return &fault.Error{
		Kind: fault.Config, Object: command,
		Err: errors.New("postgres.tables is off: events that were emitted with pg_logical_emit_message() are in the " +
			"log alone, so nothing is left to read them from"),
		Next: "Have the application emit them again.",
	}
}
