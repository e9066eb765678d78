package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/tools/audit"
)

type auditFlags struct {
	audit.Options
	consumers, only    []string
	table              string
	asJSON, prometheus bool
}

func (a *app) auditCommand() *cobra.Command {
	var o auditFlags
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Compare the outbox with the ledgers of consumers: was every event published and handled once",
		Long: `audit compares the rows of the outbox tables with the ledgers of consumers (package inbox) over a
window of time. It finds events that are committed and not published, published and not handled, begun and not
finished, rows that share an id, and ids that were handled and never committed; and it says how long events took from
the row's timestamp to the handling, and which share of them was handled within --within.

The window ends --grace ago, or at the begin of a transaction that has written and is still open if that is earlier,
and begins --since before its end. A ledger may be in another database: --consumer
NAME=DSN, or NAME=@FILE with the connection string in a file. What prune has deleted is seen if --archive names its
files; otherwise the report says from when on rows are known. An id without a row counts only if the rows reach back
far enough, or with --complete.

It reads, and writes one small message into the log of the outbox's database, so that an idle slot moves.

Exit codes: 0 every event was published and handled once, 1 it failed, 2 the command line or the configuration is
wrong, 3 something was found.`,
		Example: `  cdc-outbox audit --consumer billing
  cdc-outbox audit --consumer billing=@billing.dsn --consumer mail=@mail.dsn --only mail=order --since 24h --json
  cdc-outbox audit --consumer billing --archive /var/lib/outbox-archive --since 720h
  cdc-outbox audit --consumer billing --prometheus > /var/lib/node_exporter/cdc_outbox_audit.prom`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.asJSON && o.prometheus {
				return fault.Usage("--json and --prometheus exclude each other", "choose one")
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			return a.audit(cmd.Context(), c, &o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.consumers, "consumer", nil, "ledger to compare: NAME, NAME=DSN or NAME=@FILE; may be repeated")
	f.StringArrayVar(&o.only, "only", nil, "NAME=TYPE: the consumer handles only this aggregate type; may be repeated")
	f.StringVar(&o.table, "ledger", "processed_events", "the ledgers' table")
	f.DurationVar(&o.Since, "since", 24*time.Hour, "length of the window")
	f.DurationVar(&o.Grace, "grace", 5*time.Minute, "how long ago the window ends; younger events are not judged")
	f.DurationVar(&o.Within, "within", time.Minute,
		"objective for the time from commit to handling: the report has the share of events that met it")
	f.DurationVar(&o.Wait, "wait", 10*time.Second, "how long to wait for the slot to confirm what is written")
	f.StringArrayVar(&o.Archives, "archive", nil,
		"rows that prune --archive has written to this file or directory count too; may be repeated")
	f.BoolVar(&o.Complete, "complete", false, "no row was ever deleted from the tables, but what archives have")
	f.IntVar(&o.Examples, "examples", 20, "ids shown for each finding")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	f.BoolVar(&o.prometheus, "prometheus", false, "print metrics for the textfile collector of node_exporter")
	return cmd
}

func (a *app) audit(ctx context.Context, c *config.Loaded, o *auditFlags) error {
	db, err := wiring.NewTarget(c)
	if err != nil {
		return err
	}
	if err := needTables(db, "audit"); err != nil {
		return err
	}
	if o.Ledgers, err = audit.ParseLedgers(o.consumers, o.table, o.only); err != nil {
		return err
	}
	o.DSN, o.Admin, o.Progress = db.DSN, db.Admin, a.progress()
	if c.Source == config.SourcePolling {
		o.Published = c.Polling.Columns.PublishedAt
	}
	report, err := audit.Run(ctx, o.Options)
	if err != nil {
		return err
	}
	switch {
	case o.asJSON:
		err = a.printJSON(report)
	case o.prometheus:
		_, err = io.WriteString(a.stdout, report.Prometheus())
	default:
		_, err = io.WriteString(a.stdout, report.Text())
	}
	if err != nil {
		return err
	}
	return report.Err()
}
