package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/app/statusview"
	"github.com/cdc-outbox/cdc-outbox/internal/base/console"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

// statusFlags are the flags of status.
type statusFlags struct {
	asJSON, why, watch bool
	url                string
}

func (a *app) statusCommand() *cobra.Command {
	var o statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the slot, the connector, and what it waits for",
		Long: `status asks Postgres for the slot, which works also when the connector does not run, and asks the
connector at http.listen how it is. The first line is the verdict: state, events per second, the worst second of the
last ten from commit to acknowledgement, and how much the slot may still hold back. With --why it says only what the
slot waits for, and what to do about it. The exit code is 3 when the slot is missing or lost.

With --url it asks the connector at that address and not Postgres. With --watch it shows the status again every two
seconds; where stdout is not a terminal, the verdict alone.`,
		Example: `  cdc-outbox status --config cdc-outbox.yaml
  cdc-outbox status --why
  cdc-outbox status --watch --url http://10.0.0.7:9464
  cdc-outbox status --json | jq .replication_slot.retained_wal_bytes`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.watch && (o.asJSON || o.why) {
				return fault.Usage("--watch shows the whole status as text", "leave --json and --why out")
			}
			c, err := a.load(cmd)
			if err != nil {
				return err
			}
			if c.Source == config.SourcePolling && o.url == "" {
				if o.watch {
					return fault.Usage("--watch is for source: wal", "cdc-outbox status")
				}
				return a.statusPolling(cmd.Context(), c, o.why, o.asJSON)
			}
			if o.watch {
				return a.watchStatus(cmd.Context(), c, o.url)
			}
			return a.status(cmd.Context(), c, &o)
		},
	}
	cmd.Flags().BoolVar(&o.why, "why", false, "say only what the slot waits for")
	cmd.Flags().BoolVar(&o.watch, "watch", false, "show the status again every two seconds, until Ctrl-C")
	cmd.Flags().StringVar(&o.url, "url", "", "ask only the connector at this address, such as http://host:9464")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON, the same as /status")
	return cmd
}

// lookAt asks the connector at an address, or the configured one and the server.
func lookAt(ctx context.Context, c *config.Loaded, url string) (service.Status, string, error) {
	if url == "" {
		return service.Look(ctx, c)
	}
	st, err := service.LookAt(ctx, url)
	return st, url, err
}

func (a *app) status(ctx context.Context, c *config.Loaded, o *statusFlags) error {
	st, source, err := lookAt(ctx, c, o.url)
	var perr error
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // a question that the stop cut off says nothing of the slot
	case o.url != "" && err != nil:
		return err
	case o.why && o.asJSON:
		perr = a.printJSON(st.Cause)
	case o.why:
		perr = statusview.WriteCause(a.stdout, st.Cause, a.style())
	case o.asJSON:
		perr = a.printJSON(st)
	default:
		perr = statusview.Write(a.stdout, st, source, a.style())
	}
	if perr != nil {
		return perr
	}
	return err
}

const (
	watchEvery = 2 * time.Second
	// clearScreen goes to the upper left corner and erases the rest (ECMA-48: CUP, ED).
	clearScreen = "\x1b[H\x1b[2J"
)

// watchStatus shows the status until ctx ends. A failed question is shown, and asked again.
func (a *app) watchStatus(ctx context.Context, c *config.Loaded, url string) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		st, source, err := lookAt(ctx, c, url)
		if ctx.Err() != nil {
			return nil // Ctrl-C is how a watch ends
		}
		var b strings.Builder
		at := human.Time(time.Now()) + " "
		switch {
		case url != "" && err != nil:
			b.WriteString(at + err.Error() + "\n")
		case terminal(a.stdout):
			_ = statusview.Write(&b, st, source, a.style()) // a builder takes everything
		default:
			b.WriteString(at + statusview.Verdict(&st, console.Style{}) + "\n")
		}
		text := b.String()
		if terminal(a.stdout) {
			text = clearScreen + text
		}
		if _, err := io.WriteString(a.stdout, text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
