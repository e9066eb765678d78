package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/letterbox"
	"github.com/cdc-outbox/cdc-outbox/router"
)

func (a *app) deadLetterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead-letter",
		Short: "List, show, retry, dismiss and export the dead letters of the relay and of consumers",
		Long: `dead-letter works on router.dead_letter_topic, where router.on_bad_row: dead_letter and router.bad_rows
put rows that could not be published, or with --in on a topic where a consumer put events that it could not handle. It
needs the broker only; retry needs Postgres, too, for letters that are pointers. The connector and the consumers may run
meanwhile.`,
		Example: `  cdc-outbox dead-letter list --open
  cdc-outbox dead-letter list --in order.events.DLT --open --group billing --older-than 1h
  cdc-outbox dead-letter show 018f4d3c-0000-7000-8000-000000000001
  cdc-outbox dead-letter retry --reason illegal_topic --topic order.events --dry-run`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, _ = io.WriteString(a.stderr, cmd.UsageString())
			return fault.Usage("dead-letter needs list, show, retry, dismiss or export",
				"cdc-outbox dead-letter list shows what is there")
		},
	}
	in := cmd.PersistentFlags().String("in", "",
		"the topic of the dead letters (router.dead_letter_topic; a consumer's is TOPIC.DLT)")
	cmd.AddCommand(a.deadLetterListCommand(in), a.deadLetterShowCommand(in), a.deadLetterRetryCommand(in),
		a.deadLetterDismissCommand(in), a.deadLetterExportCommand(in))
	return cmd
}

// filterFlags adds the flags that choose letters.
func filterFlags(cmd *cobra.Command, o *deadletter.Filter) {
	f := cmd.Flags()
	f.StringSliceVar(&o.Reasons, "reason", nil, "only letters with this reason or class; may be repeated")
	f.StringVar(&o.Group, "group", "", "only letters of this consumer group")
	f.StringVar(&o.Source, "source", "", "only letters whose record was in this topic, or was for it")
	f.DurationVar(&o.Older, "older-than", 0, "only letters that are older than this")
}

// fileFlag adds the flag that names a file instead of the topic.
func fileFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "file", "", "take the letters from this file, which dead-letter export has written")
}

// openLetters reads the letters of the topic, or of the file if one is named.
func (a *app) openLetters(ctx context.Context, c *config.Loaded, in, file string) (*letterbox.Box, error) {
	broker, err := wiring.Reader(c)
	if err != nil {
		return nil, err
	}
	if file != "" {
		return letterbox.OpenFile(ctx, broker, in, file, false, a.progress())
	}
	return letterbox.Open(ctx, broker, cmp.Or(in, c.Router.DeadLetterTopic), a.progress())
}

// checkReasons: a mistyped reason chooses nothing, which looks as if there were nothing to do.
func checkReasons(names []string) error {
	known := deadletter.Classes()
	for _, r := range router.Reasons() {
		known = append(known, string(r))
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fault.Usage("--reason: there is no reason "+fault.Printable(name),
				"name one of: "+strings.Join(known, ", "))
		}
	}
	return nil
}

func (a *app) deadLetterListCommand(in *string) *cobra.Command {
	var asJSON, open bool
	var file string
	var chosen deadletter.Filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead letters",
		Long: `list reads the dead-letter topic to its end and prints a line for each letter, by position in the log.
State open: not retried. retried: published by dead-letter retry. dismissed: not to be published, by dead-letter
dismiss. interrupted: a retry began and did not say how it ended. The position of a consumer's letter is where its
record was: TOPIC/PARTITION@OFFSET. If the topic's retention will soon delete open letters, list warns of it on stderr,
with the commands that keep them.`,
		Example: `  cdc-outbox dead-letter list --open
  cdc-outbox dead-letter list --reason null_key --json | jq -r '.[].id'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkReasons(chosen.Reasons); err != nil {
				return err
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			b, err := a.openLetters(cmd.Context(), c, *in, file)
			if err != nil {
				return err
			}
			defer b.Close()
			entries := b.Chosen(&chosen, open, time.Now())
			findings, err := b.Retention(cmd.Context())
			if err != nil {
				return err
			}
			if err := console.Findings(a.stderr, findings, console.Style{}, false); err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(entries)
			}
			return writeLetters(a.stdout, entries, b.Ledger.Strange, time.Now())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&open, "open", false, "only letters that were neither retried nor dismissed")
	fileFlag(cmd, &file)
	filterFlags(cmd, &chosen)
	return cmd
}

func writeLetters(w io.Writer, entries []*deadletter.Entry, strange int, now time.Time) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	groups := slices.ContainsFunc(entries, func(e *deadletter.Entry) bool { return e.Group != "" })
	if len(entries) > 0 {
		fmt.Fprintln(tw, "POSITION\tID\tREASON\tTOPIC\t"+map[bool]string{true: "GROUP\t"}[groups]+"AGE\tSTATE")
	}
	for _, e := range entries {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t", cell(e.Position), cell(e.ID), cell(e.Reason), cell(e.Topic))
		if groups {
			fmt.Fprintf(tw, "%s\t", cell(e.Group))
		}
		fmt.Fprintf(tw, "%s\t%s\n", human.Duration(now.Sub(e.Written)), e.State)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	b.WriteString(human.Counted(int64(len(entries)), "dead letter", "dead letters") + "\n")
	if strange > 0 {
		fmt.Fprintf(&b, "%d records in the topic are not dead letters of this version\n", strange)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cell shortens a value of a row, which may be of any length, and keeps it from moving the table.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	const most = 60
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most-1]) + "…"
	}
	return fault.Printable(s)
}
