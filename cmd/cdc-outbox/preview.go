package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/preview"
)

func (a *app) previewCommand() *cobra.Command {
	var asJSON bool
	last := 1
	cmd := &cobra.Command{
		Use:   "preview [EVENT_ID...]",
		Short: "Show the records that rows become, without Kafka",
		Long: `preview reads rows of the outbox tables and prints the records that the relay builds from them: topic,
key, headers, value. It needs no Kafka, no slot and no publication, and changes nothing. Without an id it shows the
latest row of each table. A row that cannot become a record is shown with the reason and with what the
relay does about it.

The records have no position header, because a table does not know it. cdc-outbox run --sink stdout shows events with
their positions, as they are committed.

Exit codes: 0 every row that was found becomes a record, 1 it failed, 2 the command line is wrong, 3 there is no such
row, or a row cannot become a record.`,
		Example: `  cdc-outbox preview
  cdc-outbox preview 018f4d3c-0000-7000-8000-000000000001
  cdc-outbox preview --last 20 --json | jq .topic`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			if last < 1 || len(ids) > 0 && cmd.Flags().Changed("last") {
				return fault.Usage("--last takes a number above 0, and no ids beside it", cmd.CommandPath()+" --help")
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			o, err := service.PreviewOptions(cmd.Context(), c)
			if err != nil {
				return err
			}
			if err := needTables(wiring.Target{DSN: o.DSN, Admin: o.Admin}, "preview"); err != nil {
				return err
			}
			return a.preview(cmd.Context(), o, ids, last, asJSON)
		},
	}
	cmd.Flags().IntVar(&last, "last", last, "how many of the latest rows of each table")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each row")
	return cmd
}

func (a *app) preview(ctx context.Context, o preview.Options, ids []string, last int, asJSON bool) error {
	bad, first := 0, true
	_, err := preview.Rows(ctx, o, ids, last, func(r *preview.Record) error {
		if r.Bad != nil {
			bad++
		}
		if asJSON {
			return r.JSON(a.stdout)
		}
		if !first {
			fmt.Fprintln(a.stdout)
		}
		first = false
		return r.Text(a.stdout)
	})
	if err == nil && bad > 0 {
		err = &fault.Error{
			Kind: fault.Operator, Object: "preview",
			Err: errors.New(human.Counted(int64(bad), "row cannot", "rows cannot") + " become a record"),
		}
	}
	return err
}

// runToStdout is run --sink stdout.
func (a *app) runToStdout(ctx context.Context, c *config.Loaded) error {
	if c.Source == config.SourcePolling {
		return fault.Usage("--sink stdout reads the log, and source is polling",
			"cdc-outbox preview shows what rows of the table become")
	}
	o, err := service.PreviewOptions(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stderr, "Creating a temporary slot. It waits for the transactions that are open now.")
	return preview.Stream(ctx, o, func(slot string) {
		fmt.Fprintf(a.stderr, "Reading publication %s through the temporary slot %s. Events that are committed from "+
			"now on follow,\na line of JSON each. Slot %s does not move, and nothing is sent to Kafka. Ctrl-C ends "+
			"it.\n", fault.Printable(c.Postgres.Publication), slot, fault.Printable(c.Postgres.Slot))
	}, func(r *preview.Record) error { return r.JSON(a.stdout) })
}
