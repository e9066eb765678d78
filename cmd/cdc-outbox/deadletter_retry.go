package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cdc-outbox/cdc-outbox/internal/app/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/retry"
)

// retryFlags are the flags of retry.
type retryFlags struct {
	retry.Options
	all bool
}

// check refuses flags that choose no letters, or choose in two ways.
func (o *retryFlags) check(args []string) error {
	if o.all && (len(args) > 0 || len(o.Reasons) > 0) {
		return fault.Usage("--all chooses every open letter, and an id or --reason fewer", "leave one of them out")
	}
	if !o.all && len(args) == 0 && o.IsEmpty() {
		return fault.Usage("no letter is chosen", "name letters by id or position, or choose by --reason or --all")
	}
	return checkReasons(o.Reasons)
}

// from names the topic: a file knows its own.
func (o *retryFlags) from(in string, c *config.Loaded) {
	if o.Topic = in; o.File == "" {
		o.Topic = cmp.Or(in, c.Router.DeadLetterTopic)
	}
}

func (a *app) deadLetterRetryCommand(in *string) *cobra.Command {
	var o retryFlags
	cmd := &cobra.Command{
		Use:   "retry [ID…]",
		Short: "Publish dead letters, corrected where they need it",
		Long: `retry makes the record that a dead letter should have been, and publishes it to its topic, after newer
events of its key that were published meanwhile, with the event's id and position and a header "retried". Letters are
named by id or position, or chosen by --all or --reason; --group, --source and --older-than leave out what does not
match. They go in the order of their positions. A row is routed as the present configuration says, after the
corrections: --topic, --key, --set and --null apply to every chosen letter. What a letter does not hold is read from
the outbox table, where the row may have changed since.

The letter of a consumer (--in TOPIC.DLT) goes to the topic and partition where its record was, in the order that the
records had there; with --key to the partition of that key; or with --from-table as the outbox table has the event.
Consumers of the topic that have handled the event recognize its id. A letter of class "waiting" waits for an earlier
one of its key and is left to its consumer, unless it is chosen by --reason waiting, or named with --again.

A compacted topic is refused without --into-compacted: of each key it keeps the last record, so an event that is
published again replaces a newer one for good.

A mark in the dead-letter topic, before and after, remembers the retry. What was retried is not published again
without --again; nor is what an interrupted retry left behind, of which it is not known whether it was published.
Letters retry does not touch stay as they are.

With --file the letters come from a file that dead-letter export has written, also if the topic has deleted them since.
The marks go to the topic and to the file, which must be writable: use one copy of it.

Exit codes: 0 all that was chosen is published, 1 it failed or was interrupted, 2 the command line is wrong, 3
something was not published; what and why is said.`,
		Example: `  cdc-outbox dead-letter retry 018f4d3c-0000-7000-8000-000000000001 --set aggregate_id=42
  cdc-outbox dead-letter retry --reason illegal_topic --topic order.events --dry-run
  cdc-outbox dead-letter retry --reason too_large
  cdc-outbox dead-letter retry --file order.events.DLT.jsonl --group billing --all`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args); err != nil {
				return err
			}
			if err := o.Corrections.Parse(); err != nil {
				return err
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			o.from(*in, c)
			return a.retry(cmd.Context(), c, &o, args)
		},
	}
	fileFlag(cmd, &o.File)
	filterFlags(cmd, &o.Filter)
	o.register(cmd.Flags())
	return cmd
}

func (o *retryFlags) register(f *pflag.FlagSet) {
	f.BoolVar(&o.all, "all", false, "retry every open letter")
	f.BoolVar(&o.Again, "again", false,
		"also publish what was retried already, or what an interrupted retry left behind")
	f.BoolVar(&o.DryRun, "dry-run", false, "say what would be published, and publish nothing")
	f.BoolVar(&o.FromTable, "from-table", false, "take the rows from the outbox table although the letters hold them")
	f.StringVar(&o.Corrections.Topic, "topic", "", "publish to this topic")
	f.StringVar(&o.Corrections.Key, "key", "", "give the records this key")
	f.StringArrayVar(&o.Corrections.Set, "set", nil,
		"COLUMN=VALUE: give the row this value before it is routed; may be repeated")
	f.StringSliceVar(&o.Corrections.Null, "null", nil, "COLUMN: make it NULL before the row is routed; may be repeated")
	f.BoolVar(&o.IntoCompacted, "into-compacted", false, intoCompactedUsage)
	f.DurationVar(&o.Timeout, "timeout", 30*time.Second, "how long to wait for Kafka to take a batch of letters")
}

func (a *app) retry(ctx context.Context, c *config.Loaded, o *retryFlags, names []string) error {
	db, err := wiring.NewTarget(c)
	if err != nil {
		return err
	}
	if o.Kafka, err = wiring.Kafka(c); err != nil {
		return err
	}
	if o.Router, err = routing.NewTo(ctx, c, o.Corrections.Topic); err != nil {
		return err
	}
	o.Names, o.DSN, o.Tables, o.Progress = names, db.DSN, db.Admin.Tables, a.progress()
	o.IDColumn, o.KeyColumn = c.Router.Roles().ID, c.Router.Roles().AggregateID
	failed := 0
	chosen, err := retry.Run(ctx, o.Options, func(batch []*retry.Letter) { failed += a.printRetried(batch, o.DryRun) })
	if err != nil {
		return err
	}
	what := "published"
	if o.DryRun {
		what = "would be published"
	}
	fmt.Fprintf(a.stdout, "%d of %d dead letters %s\n", chosen-failed, chosen, what)
	return unfinished(failed, "dead-letter retry", "published")
}

func (a *app) deadLetterDismissCommand(in *string) *cobra.Command {
	var o retryFlags
	cmd := &cobra.Command{
		Use:   "dismiss [ID…]",
		Short: "Mark dead letters as not to be published any more",
		Long: `dismiss marks open letters as decided without publishing them. They stay in the topic, list --open
leaves them out, and the number of open letters of a consumer goes down. Letters are chosen as for retry.`,
		Example: `  cdc-outbox dead-letter dismiss --in order.events.DLT 018f4d3c-0000-7000-8000-000000000001
  cdc-outbox dead-letter dismiss --in order.events.DLT --group billing --reason no_id`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args); err != nil {
				return err
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			if o.Kafka, err = wiring.Kafka(c); err != nil {
				return err
			}
			o.from(*in, c)
			o.Names, o.Progress = args, a.progress()
			failed := 0
			chosen, err := retry.Dismiss(cmd.Context(), o.Options, func(batch []*retry.Letter) {
				failed += a.printFailed(batch)
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%d of %d dead letters dismissed\n", chosen-failed, chosen)
			return unfinished(failed, "dead-letter dismiss", "dismissed")
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "dismiss every open letter")
	fileFlag(cmd, &o.File)
	filterFlags(cmd, &o.Filter)
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 30*time.Second, "how long to wait for Kafka to take the marks")
	return cmd
}

// unfinished is the error if the command failed for some letters.
func unfinished(failed int, object, what string) error {
	if failed == 0 {
		return nil
	}
	return &fault.Error{
		Kind: fault.Operator, Object: object,
		Err:  errors.New(human.Counted(int64(failed), "dead letter is", "dead letters are") + " not " + what),
		Next: "Do what the lines above say, then retry them.",
	}
}

// printFailed says of which letters nothing became, and returns how many they are.
func (a *app) printFailed(batch []*retry.Letter) (failed int) {
	for _, r := range batch {
		if r.Err != nil {
			failed++
			fmt.Fprintf(a.stdout, "not dismissed: %s: %s\n", cell(r.Entry.Position), fault.Printable(r.Err.Error()))
		}
	}
	return failed
}

// printRetried prints each letter's result, and returns how many were not published.
func (a *app) printRetried(batch []*retry.Letter, dryRun bool) (failed int) {
	for _, r := range batch {
		name := cell(r.Entry.Position) + " " + cell(r.Entry.ID)
		switch {
		case r.Err != nil:
			failed++
			sentence, remedy := fault.Split(r.Err)
			fmt.Fprintf(a.stdout, "not published: %s: %s", name, fault.Printable(sentence))
			for i, line := range remedy.Lines() {
				fmt.Fprint(a.stdout, map[bool]string{true: ". Next: ", false: "\n  "}[i == 0], fault.Printable(line))
			}
			fmt.Fprintln(a.stdout)
		case dryRun:
			key := "without a key"
			if r.Record.Key != nil {
				key = "with a key"
			}
			fmt.Fprintf(a.stdout, "would publish: %s to %s, %s, %d bytes\n", name, r.Record.Topic, key, r.Record.Size())
		default:
			fmt.Fprintf(a.stdout, "published: %s to %s\n", name, r.Record.Topic)
		}
	}
	return failed
}
