package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// retryOptions are the flags of retry.
type retryOptions struct {
	all, again, dryRun, fromTable bool
	reasons                       []string
	corrections                   corrections
	timeout                       time.Duration
}

// letterBatch is how many letters are retried at a time. Each batch costs three waits for Kafka and a look at the marks.
const letterBatch = 100

func (a *app) deadLetterRetryCommand() *cobra.Command {
	var o retryOptions
	cmd := &cobra.Command{
		Use:   "retry [ID…]",
		Short: "Publish dead letters, corrected where they need it",
		Long: `retry makes the record that a dead letter should have been, and publishes it to its topic, with the event's id and position and a
header "retried". Letters are named by id or position, or chosen by --all or --reason; they go in the order of their positions. A
row is routed as the present configuration says, after the corrections: --topic, --key, --set and --null apply to every chosen letter. What a letter
does not hold is read from the outbox table, where the row may have changed since.

A mark in the dead-letter topic, before and after, remembers the retry. What was retried is not published again without --again; nor
is what an interrupted retry left behind, of which nobody can tell whether it was published. Letters retry does not touch stay
as they are.

Exit codes: 0 all that was chosen is published, 1 it failed or was interrupted, 2 the command line is wrong, 3 something was not published; what and why is said.`,
		Example: `  cdc-outbox dead-letter retry 018f4d3c-0000-7000-8000-000000000001 --set aggregate_id=42
  cdc-outbox dead-letter retry --reason illegal_topic --topic order.events --dry-run
  cdc-outbox dead-letter retry --reason too_large`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.all && (len(args) > 0 || len(o.reasons) > 0) || len(args) > 0 && len(o.reasons) > 0 {
				return fault.Usage("letters are chosen by ids, by --reason or by --all", "name one of the three")
			}
			if !o.all && len(args) == 0 && len(o.reasons) == 0 {
				return fault.Usage("no letter is chosen", "name letters by id or position, or choose by --reason or --all")
			}
			if err := checkReasons(o.reasons); err != nil {
				return err
			}
			if err := o.corrections.parse(); err != nil {
				return err
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			if o.corrections.topic == c.Router.DeadLetterTopic {
				return fault.Usage("--topic: the topic is that of the dead letters", "name a topic for events")
			}
			return a.retry(cmd.Context(), c, &o, args)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.all, "all", false, "retry every open letter")
	f.StringSliceVar(&o.reasons, "reason", nil, "retry every open letter with this reason; may be repeated")
	f.BoolVar(&o.again, "again", false, "also publish what was retried already, or what an interrupted retry left behind")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be published, and publish nothing")
	f.BoolVar(&o.fromTable, "from-table", false, "take the rows from the outbox table although the letters hold them")
	f.StringVar(&o.corrections.topic, "topic", "", "publish to this topic")
	f.StringVar(&o.corrections.key, "key", "", "give the records this key")
	f.StringArrayVar(&o.corrections.set, "set", nil, "COLUMN=VALUE: give the row this value before it is routed; may be repeated")
	f.StringSliceVar(&o.corrections.null, "null", nil, "COLUMN: make it NULL before the row is routed; may be repeated")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long to wait for Kafka to take a batch of letters")
	return cmd
}

// retrial is one letter on its way to be published.
type retrial struct {
	entry  *deadletter.Entry
	record *router.Record
	known  map[string]bool // attempts before ours
	err    error           // why it is not published
}

func (a *app) retry(ctx context.Context, c *config.Loaded, o *retryOptions, names []string) error {
	b, err := a.openLetters(ctx, c)
	if err != nil {
		return err
	}
	defer b.close()
	chosen, err := b.choose(o, names)
	if err != nil {
		return err
	}
	re, err := newRebuilder(c, b, o)
	if err != nil {
		return err
	}
	defer re.close(ctx)
	var pub *publisher
	if !o.dryRun {
		if pub, err = a.newPublisher(ctx, c); err != nil {
			return err
		}
		defer pub.Close()
	}
	failed := 0
	for batch := range slices.Chunk(chosen, letterBatch) {
		for i := range batch {
			if batch[i].err == nil {
				batch[i].record, batch[i].err = re.rebuild(ctx, batch[i].entry)
			}
		}
		if !o.dryRun {
			if err := pub.retry(ctx, b, batch, o.timeout); err != nil {
				return err
			}
		}
		failed += a.printRetrials(batch, o.dryRun)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Fprintf(a.stdout, "%d of %d dead letters %s\n", len(chosen)-failed, len(chosen), map[bool]string{false: "published", true: "would be published"}[o.dryRun])
	if failed > 0 {
		return &fault.Error{Kind: fault.Operator, Object: "dead-letter retry", Err: fmt.Errorf("%d dead letters are not published", failed),
			Next: "do what the lines above say, then retry them"}
	}
	return nil
}

// choose takes the letters that are named, or all open ones of the reasons. One that is named and may not be retried says
// why; among those chosen by reason it is left out, unless --again.
func (b *letterBox) choose(o *retryOptions, names []string) ([]*retrial, error) {
	var chosen []*retrial
	add := func(e *deadletter.Entry, err error) {
		if !slices.ContainsFunc(chosen, func(r *retrial) bool { return r.entry == e }) {
			chosen = append(chosen, &retrial{entry: e, known: e.Attempts(), err: err})
		}
	}
	for _, name := range names {
		e, err := b.find(name)
		if err != nil {
			return nil, err
		}
		add(e, mayRetry(e, o.again))
	}
	if len(names) == 0 {
		for _, e := range b.ledger.Entries() {
			switch {
			case len(o.reasons) > 0 && !slices.Contains(o.reasons, e.Reason):
			case e.State == deadletter.Retried && !o.again:
			default:
				add(e, mayRetry(e, o.again))
			}
		}
	}
	slices.SortStableFunc(chosen, func(x, y *retrial) int { return strings.Compare(x.entry.Position, y.entry.Position) })
	return chosen, nil
}

func mayRetry(e *deadletter.Entry, again bool) error {
	switch {
	case again || e.State == deadletter.Open:
		return nil
	case e.State == deadletter.Retried:
		return fmt.Errorf("it was published at %s; --again publishes it once more", e.RetriedAt.Format(time.RFC3339))
	default:
		return errors.New("an earlier retry was interrupted and may have published it; look for its id in the topic, then use --again to publish it, perhaps for the second time")
	}
}

// printRetrials says what became of each letter, and returns how many were not published.
func (a *app) printRetrials(batch []*retrial, dryRun bool) (failed int) {
	for _, r := range batch {
		name := cell(r.entry.Position) + " " + cell(r.entry.ID)
		switch {
		case r.err != nil:
			failed++
			sentence, remedy := fault.Split(r.err)
			fmt.Fprintf(a.stdout, "not published: %s: %s", name, fault.Printable(sentence))
			for i, line := range remedy.Lines() {
				fmt.Fprint(a.stdout, map[bool]string{true: ". Next: ", false: "\n  "}[i == 0], fault.Printable(line))
			}
			fmt.Fprintln(a.stdout)
		case dryRun:
			key := "without a key"
			if r.record.Key != nil {
				key = "with a key"
			}
			fmt.Fprintf(a.stdout, "would publish: %s to %s, %s, %d bytes\n", name, r.record.Topic, key, r.record.Size())
		default:
			fmt.Fprintf(a.stdout, "published: %s to %s\n", name, r.record.Topic)
		}
	}
	return failed
}
