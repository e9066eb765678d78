package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/app/statusview"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
)

// pollingSetupOptions are the flags of setup and teardown.
type pollingSetupOptions struct {
	table, dryRun, publishExisting bool
	role                           string
}

// setupPolling prints or does the steps that polling still needs.
func (a *app) setupPolling(ctx context.Context, c *config.Loaded, o pollingSetupOptions) error {
	dsn, err := wiring.DSN(c)
	if err != nil {
		return err
	}
	s, err := wiring.PollingSetup(c, o.table)
	if err != nil {
		return err
	}
	s.Role, s.PublishExisting = o.role, o.publishExisting
	if !o.dryRun {
		steps, err := polling.Apply(ctx, dsn, s)
		if perr := a.printSteps(steps); err == nil {
			err = perr
		}
		if err != nil {
			return err
		}
		what := "-- Done."
		if len(steps) == 0 {
			what = "-- Everything was there; nothing was done."
		}
		_, err = fmt.Fprintln(a.stdout, what)
		return err
	}
	steps, err := polling.PlanSetup(ctx, dsn, s)
	if err != nil && fault.KindOf(err) == fault.Retry && ctx.Err() == nil {
		fmt.Fprintf(a.stderr, "cdc-outbox: %v\nThe server could not be asked, so this is what an empty "+
			"database needs.\n", err)
		steps, err = polling.SetupScript(s), nil
	}
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		_, err = fmt.Fprintln(a.stdout, "-- Everything is there; nothing to do.")
		return err
	}
	return a.printSteps(steps)
}

func (a *app) teardownPolling(ctx context.Context, c *config.Loaded, o teardownOptions) error {
	dsn, err := wiring.DSN(c)
	if err != nil {
		return err
	}
	s, err := wiring.PollingSetup(c, false)
	if err != nil {
		return err
	}
	return a.tearDown(o, func() ([]setup.Step, error) { return polling.PlanTeardown(ctx, dsn, s, o.table) },
		func() error { _, err := polling.Remove(ctx, dsn, s, o.table); return err })
}

// statusPolling shows the backlog, which works also when no relay runs, and a relay's answer at http.listen.
func (a *app) statusPolling(ctx context.Context, c *config.Loaded, why, asJSON bool) error {
	st, url, err := service.LookPolling(ctx, c)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case why && asJSON:
		if perr := a.printJSON(service.PollingCause(st)); perr != nil {
			return perr
		}
	case why:
		if perr := statusview.WriteCause(a.stdout, service.PollingCauseOrNone(st)); perr != nil {
			return perr
		}
	case asJSON:
		if perr := a.printJSON(st); perr != nil {
			return perr
		}
	default:
		if perr := writePolling(a.stdout, st, url, err); perr != nil {
			return perr
		}
	}
	return err
}

// writePolling prints the status for people.
func writePolling(w io.Writer, st polling.Status, source string, unasked error) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(tw, "  %s\t%s\n", label, fault.Printable(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(tw, "outbox %s\n", strings.Join(st.Tables, ", "))
	switch bl := st.Backlog; {
	case bl == nil:
		why, _ := fault.Split(unasked)
		line("not published", "not known: %s", why)
	case bl.Rows >= relay.MaxCounted:
		line("not published", "at least %d rows%s", bl.Rows, oldest(bl))
	default:
		line("not published", "%d rows%s", bl.Rows, oldest(bl))
	}
	fmt.Fprintf(tw, "connector %s\n", source)
	state := strings.ReplaceAll(string(st.State.Name), "_", " ")
	if st.State.Reason != "" {
		state += ": " + st.State.Reason
	}
	line("state", "%s", state)
	if state := st.State.Name; state != relay.NotRunning {
		ready := "yes"
		if !st.Ready {
			ready = "no: " + st.ReadyReason
		}
		line("ready", "%s", ready)
		line("workers", "%d, notifications %s", st.Workers,
			map[bool]string{true: "arrive", false: "are not listened for, or do not arrive"}[st.Listening])
		line("in flight", "%d of %d records, %s of %s", st.Window.Records, st.Window.MaxRecords,
			human.Bytes(float64(st.Window.Bytes)), human.Bytes(float64(st.Window.MaxBytes)))
		line("published", "%d since it started, %d skipped, %d dead letters", st.Counts.Published, st.Counts.Skipped,
			st.Counts.DeadLettered)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(st.Halted)+len(st.Waits) > 0 || !st.State.Remedy().IsZero() {
		b.WriteString("waits for\n")
	}
	for _, h := range st.Halted {
		fmt.Fprintf(&b, "  - event %s at %s of %s: %s\n", fault.Printable(h.EventID), h.Position,
			fault.Printable(h.Table), fault.Printable(h.Message))
		writeNext(&b, h.Remedy())
	}
	if len(st.Halted) == 0 {
		writeNext(&b, st.State.Remedy())
	}
	for _, x := range st.Waits {
		fmt.Fprintf(&b, "  - %s (since %s)\n", fault.Printable(x.Sentence()), human.Time(x.Since))
		writeNext(&b, x.Remedy())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func oldest(b *relay.Backlog) string {
	if b.Oldest == nil {
		return ""
	}
	return fmt.Sprintf(", the oldest written %s ago", human.Duration(time.Duration(*b.Oldest*float64(time.Second))))
}
