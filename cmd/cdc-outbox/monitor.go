package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/app/statusview"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

func (a *app) monitorCommand() *cobra.Command {
	var once, asJSON bool
	var only []string
	cmd := &cobra.Command{
		Use:   "monitor",
		Short: "Watch every logical replication slot of a server",
		Long: `monitor watches all logical slots of the server, whichever process reads them: how much WAL each holds
back, how fast that grows, when the slot is lost or the disk full, and why. It needs a connection string in
postgres.dsn and nothing else: no Kafka, no publication, no slot of its own. Any role that may connect sees sizes and
states; one with pg_monitor also sees whose transactions hold them back, and one that may read the table of gaps
(cdc_outbox_gaps, in the database that the string names) also which slots' events may be missing.

On a terminal it shows a table. Otherwise it runs as a service: alerts go to the log and to monitor.webhook, metrics to
http.listen; on a terminal it listens only if http.listen is set.

The exit code is 0 when stopped as asked. With --once it is 0 when no slot is critical, 3 when one is, or has a gap,
and 1 when the server does not answer. It takes two samples, two seconds apart, for the growth and the time left, and
warns of each slot that no session reads.`,
		Example: `  cdc-outbox monitor --postgres-dsn postgres://watcher@db.internal/postgres
  cdc-outbox monitor --once --json | jq '.slots[] | {name, retained_wal_bytes}'
  cdc-outbox monitor --http-listen 0.0.0.0:9465 --monitor-webhook @/run/secrets/webhook`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			if c.Source == config.SourcePolling {
				return a.monitorPolling(cmd.Context(), c, once, asJSON)
			}
			mc := wiring.Monitor(c)
			mc.Only = only
			if once {
				return a.monitorOnce(cmd.Context(), c, mc, asJSON)
			}
			return a.monitor(cmd.Context(), c, mc, asJSON)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "take two samples and say in the exit code how it is")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, without --once a line for each sample")
	cmd.Flags().StringSliceVar(&only, "only", nil, "names of slots; default all")
	return cmd
}

func (a *app) monitorOnce(ctx context.Context, c *config.Loaded, mc slotmonitor.Config, asJSON bool) error {
	if terminal(a.stderr) {
		_, _ = fmt.Fprintf(a.stderr, "Measuring how fast the slots grow, %s\n", human.Duration(slotmonitor.Between))
	}
	list, err := slotmonitor.LookTwice(ctx, mc)
	if err != nil {
		return postgres.QueryFault("postgres", err)
	}
	found := service.Slots{Slots: list, LastWords: service.LastWords(ctx, c, list)}
	found.AddGaps(ctx, c, mc.Only)
	if asJSON {
		err = a.printJSON(found)
	} else {
		err = statusview.WriteSlots(a.stdout, found, a.style())
	}
	if err == nil && found.Worst() == alert.Critical {
		err = &fault.Error{
			Kind: fault.Operator, Object: "replication slots",
			Err:  errors.New("at least one is lost, or about to be, or events may be missing from its stream"),
			Next: "See the alerts above; each has a section: " + service.Runbook(c, "alerts") + ".",
		}
	}
	return err
}

func (a *app) monitor(ctx context.Context, c *config.Loaded, mc slotmonitor.Config, asJSON bool) error {
	table := !asJSON && terminal(a.stdout)
	log := zap.NewNop() // the table shows the alerts, and lines between would tear it
	if !table || !terminal(a.stderr) {
		var err error
		if log, err = telemetry.NewLogger(a.stderr, c.Log.Level, a.logFormat(c)); err != nil {
			return err
		}
	}
	if !table {
		a.stay(log)
	}
	if table && c.Origins["http.listen"].Layer == "default" {
		c.HTTP.TurnOff()
	}
	w, err := service.WatchSlots(ctx, a.options(c, log), mc)
	if err != nil {
		return err
	}
	var show func(service.Slots) error
	switch {
	case asJSON:
		show = func(s service.Slots) error { return a.printLine(s) }
	case table:
		show = func(s service.Slots) error {
			_, _ = fmt.Fprint(a.stdout, "\x1b[H\x1b[2J") // to the corner, and an empty screen
			return statusview.WriteSlots(a.stdout, s, a.style())
		}
	}
	return w.Run(ctx, show)
}
