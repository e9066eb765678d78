package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/app/service"
	"github.com/cdc-outbox/cdc-outbox/internal/app/statusview"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
)

func (a *app) monitorPolling(ctx context.Context, c *config.Loaded, once, asJSON bool) error {
	if once {
		r, critical, err := service.LookAtBacklog(ctx, c)
		if err != nil {
			return err
		}
		if err := a.printBacklog(r, asJSON); err != nil || critical == "" {
			return err
		}
		return &fault.Error{
			Kind: fault.Operator, Object: "backlog", Err: errors.New(critical),
			Next:     "See whether a relay runs, and what it waits for.",
			Commands: []string{"cdc-outbox status"},
		}
	}
	log, err := telemetry.NewLogger(a.stderr, c.Log.Level, a.logFormat(c))
	if err != nil {
		return err
	}
	w, err := service.WatchBacklog(ctx, a.options(c, log))
	if err != nil {
		return err
	}
	var show func(service.BacklogReport) error
	if asJSON || terminal(a.stdout) {
		show = func(r service.BacklogReport) error { return a.printBacklog(r, asJSON) }
	}
	return w.Run(ctx, show)
}

func (a *app) printBacklog(r service.BacklogReport, asJSON bool) error {
	if asJSON {
		return a.printLine(r)
	}
	text := "not known: " + r.Error
	if b := r.Backlog; b != nil {
		text = fmt.Sprintf("%s (%s)", statusview.Rows(b, " rows not published"), r.Level)
	}
	_, err := fmt.Fprintf(a.stdout, "%s  %s\n", human.Time(time.Now()), fault.Printable(text))
	return err
}
