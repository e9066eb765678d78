package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/compare/verify"
)

type verifyFlags struct {
	verify.Options
	asJSON bool
}

func (a *app) migrateVerifyCommand() *cobra.Command {
	var o verifyFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the events in two sets of topics",
		Long: `verify reads two sets of topics up to their present ends and compares them event by event, matched by
the header id: is one missing on a side, do key, value, headers and partition agree, and do the events of each key
come in the same order. Nothing is written to Kafka and no consumer group is used; records of aborted transactions do
not count. Repeats are counted and are not a difference. Memory stays small; the temporary files take some 70 bytes a
record.

The topics are the topics with --left-prefix, each paired with the topic that has --right-prefix in its place; or name
pairs with --topic. The exit code is 0 when both sides are equal and 1 when they differ, or when they have no event in
common.`,
		Example: `  cdc-outbox migrate verify --config cdc-outbox.yaml \
    --left-prefix outbox.event. --right-prefix verify.outbox.event.
  cdc-outbox migrate verify --topic order.events=shadow.order --overlap --json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			k, err := wiring.Kafka(c)
			if err != nil {
				return err
			}
			return a.verify(cmd.Context(), k, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.LeftPrefix, "left-prefix", "", "prefix of the topics on the left")
	f.StringVar(&o.RightPrefix, "right-prefix", "", "prefix that the topics on the right have in its place")
	f.StringToStringVar(&o.Topics, "topic", nil, "pair of topics, left=right; may be repeated")
	f.StringSliceVar(&o.IgnoreHeaders, "ignore-headers", []string{"__debezium.context.runId", "position"},
		"headers that may differ")
	f.BoolVar(&o.IgnorePartitions, "ignore-partitions", false, "do not compare partitions, where their numbers differ")
	f.BoolVar(&o.Timestamps, "timestamps", false, "compare timestamps too; Debezium's come from its own clock")
	f.BoolVar(&o.Overlap, "overlap", false,
		"leave out what lies, in a partition, before the first and after the last event that both sides have")
	f.StringVar(&o.Dir, "tmp", "", "directory for temporary files (default: the system's)")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) verify(ctx context.Context, cfg kafka.Config, o verifyFlags) error {
	o.Cluster, o.Progress = cfg.Cluster, a.progress()
	report, err := verify.Run(ctx, o.Options)
	if err != nil {
		return err
	}
	if err := a.printVerdict(report, o.asJSON); err != nil {
		return err
	}
	if report.Equal {
		return nil
	}
	return reported{&fault.Error{Kind: fault.Fatal, Object: "topics", Err: errors.New("the two sides are not equal")}}
}

func (a *app) printVerdict(v *verify.Report, asJSON bool) error {
	if asJSON {
		return a.printJSON(v)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s; records: %d on the left, %d on the right; %d events are on both sides\n",
		human.Counted(int64(len(v.Topics)), "topic", "topics"),
		v.Records[0], v.Records[1], v.Matched)
	for _, name := range v.Missing {
		fmt.Fprintf(&b, "! topic %s does not exist\n", fault.Printable(name))
	}
	for _, what := range v.Removed {
		fmt.Fprintf(&b, "! removed, so not compared: %s\n", fault.Printable(what))
	}
	if v.Repeated != [2]int64{} {
		fmt.Fprintf(&b, "repeats: %d on the left, %d on the right\n", v.Repeated[0], v.Repeated[1])
	}
	if v.Outside != [2]int64{} {
		fmt.Fprintf(&b, "outside what both sides cover: %d on the left, %d on the right\n", v.Outside[0], v.Outside[1])
	}
	for _, kind := range slices.Sorted(maps.Keys(v.Differences)) {
		fmt.Fprintf(&b, "✗ %s: %d\n", kind, v.Differences[kind])
		for _, e := range v.Examples {
			if e.Kind == kind {
				fmt.Fprintf(&b, "    id %s: %s", fault.Printable(e.ID), fault.Printable(strings.Join(e.Places, " / ")))
				if e.What != "" {
					b.WriteString(": " + fault.Printable(e.What))
				}
				b.WriteString("\n")
			}
		}
	}
	switch {
	case v.Equal:
		b.WriteString("✓ equal\n")
	case v.Matched == 0:
		b.WriteString("✗ nothing was compared: the two sides have no event in common\n" +
			"    next: check the names (kafka-topics.sh --list), and that both relays have published the same rows\n")
	}
	_, err := io.WriteString(a.stdout, b.String())
	return err
}
