package main

import (
	"context"
	"fmt"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/app/statusview"
	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
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
		if perr := statusview.WriteCause(a.stdout, service.PollingCauseOrNone(st), a.style()); perr != nil {
			return perr
		}
	case asJSON:
		if perr := a.printJSON(st); perr != nil {
			return perr
		}
	default:
		if perr := statusview.WritePolling(a.stdout, st, url, err, a.style()); perr != nil {
			return perr
		}
	}
	return err
}
