package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter"
	"github.com/cdc-outbox/cdc-outbox/internal/deadletter/letterbox"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/human"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
	"github.com/cdc-outbox/cdc-outbox/router"
)

func (a *app) deadLetterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead-letter",
		Short: "List, show and retry the rows in the dead-letter topic",
		Long: `dead-letter works on router.dead_letter_topic, where router.on_bad_row: dead_letter and router.bad_rows
put rows that could not be published. It needs Kafka only; retry needs Postgres, too, for letters that are pointers.
The connector may run meanwhile.`,
		Example: `  cdc-outbox dead-letter list --open
  cdc-outbox dead-letter show 018f4d3c-0000-7000-8000-000000000001
  cdc-outbox dead-letter retry --reason illegal_topic --topic order.events --dry-run`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, _ = io.WriteString(a.stderr, cmd.UsageString())
			return fault.Usage("dead-letter needs list, show or retry",
				"cdc-outbox dead-letter list shows what is there")
		},
	}
	cmd.AddCommand(a.deadLetterListCommand(), a.deadLetterShowCommand(), a.deadLetterRetryCommand())
	return cmd
}

func (a *app) openLetters(ctx context.Context, c *config.Loaded) (*letterbox.Box, error) {
	producer, err := wiring.Kafka(c)
	if err != nil {
		return nil, err
	}
	return letterbox.Open(ctx, producer.Cluster, c.Router.DeadLetterTopic, a.progress())
}

// checkReasons: a mistyped reason chooses nothing, which looks as if there were nothing to do.
func checkReasons(names []string) error {
	var known []string
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

func (a *app) deadLetterListCommand() *cobra.Command {
	var asJSON, open bool
	var reasons []string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead letters",
		Long: `list reads the dead-letter topic to its end and prints a line for each letter, by position in the log.
State open: not retried. retried: published by dead-letter retry. interrupted: a retry began and did not say how it
ended.`,
		Example: `  cdc-outbox dead-letter list --open
  cdc-outbox dead-letter list --reason null_key --json | jq -r '.[].id'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkReasons(reasons); err != nil {
				return err
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			b, err := a.openLetters(cmd.Context(), c)
			if err != nil {
				return err
			}
			defer b.Close()
			entries := []*deadletter.Entry{}
			for _, e := range b.Ledger.Entries() {
				if (len(reasons) == 0 || slices.Contains(reasons, e.Reason)) &&
					(!open || e.State != deadletter.Retried) {
					entries = append(entries, e)
				}
			}
			if asJSON {
				return a.printJSON(entries)
			}
			return writeLetters(a.stdout, entries, b.Ledger.Strange, time.Now())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&open, "open", false, "only letters that were not retried")
	cmd.Flags().StringSliceVar(&reasons, "reason", nil, "only letters with this reason; may be repeated")
	return cmd
}

func writeLetters(w io.Writer, entries []*deadletter.Entry, strange int, now time.Time) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(entries) > 0 {
		fmt.Fprintln(tw, "POSITION\tID\tREASON\tTOPIC\tAGE\tSTATE")
	}
	for _, e := range entries {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", cell(e.Position), cell(e.ID), cell(e.Reason), cell(e.Topic),
			human.Duration(now.Sub(e.Written)), e.State)
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

// cell shortens what comes from a row, which may be of any length, and keeps it from moving the table.
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
