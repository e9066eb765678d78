package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/alert/webhook"
	"github.com/cdc-outbox/cdc-outbox/internal/build"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/page"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/traces"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// around is what each process that stays has around its work: a monitor, where its alerts go, and what is served.
type around struct {
	alerting alerting
	webhook  *webhook.Sender   // nil without monitor.webhook
	server   *telemetry.Server // nil when http.listen is off
	page     *page.Page        // nil when http.listen is off, or there is none
	traces   *traces.Recorder  // nil without traces
}

// alerting judges at intervals, and knows what fires.
type alerting interface {
	Run(ctx context.Context) error
	Firing() []string
	Alerts() []alert.FiringAlert
}

// newRegistry holds what is known of the process itself.
func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b := build.Of(version)
	telemetry.BuildInfo(reg, b.Version, b.Revision, b.Go)
	return reg
}

// watchSlots makes the monitor of the slots and the sender of its alerts, which may be those named.
func (a *around) watchSlots(
	c *config.Loaded, mc slotmonitor.Config, reg *prometheus.Registry, alerts ...string,
) (*slotmonitor.Monitor, error) {
	mc.Notify = a.notify(c, reg, mc.Logger)
	monitor, err := slotmonitor.New(mc)
	if err != nil {
		return nil, err
	}
	a.alerting = monitor
	telemetry.WatchAlerts(reg, monitor.Firing, alerts...)
	return monitor, nil
}

// watch makes a monitor without slots and the sender of its alerts, which may be those named.
func (a *around) watch(c *config.Loaded, mc alert.Config, reg *prometheus.Registry, alerts ...string) {
	mc.Notify = a.notify(c, reg, mc.Logger)
	monitor := alert.NewMonitor(mc)
	a.alerting = monitor
	telemetry.WatchAlerts(reg, monitor.Firing, alerts...)
}

// notify makes the sender of alerts; nil: no receiver is configured.
func (a *around) notify(c *config.Loaded, reg *prometheus.Registry, log *zap.Logger) func(alert.Event) {
	if !c.Monitor.Webhook.IsSet() {
		return nil
	}
	a.webhook = webhookSender(c, reg, log)
	return a.webhook.Send
}

// listen binds the address. p may be nil.
func (a *around) listen(ctx context.Context, address string, h telemetry.Handlers, p *page.Page, log *zap.Logger) (err error) {
	if p != nil {
		a.page, h.Page = p, p
	}
	if a.server, err = telemetry.Listen(ctx, address, h); err != nil {
		return err
	}
	log.Info("Listening", zap.String(telemetry.KeyAddress, a.server.Addr()))
	return nil
}

// run runs the parts beside work until ctx ends or one of them fails.
func (a *around) run(ctx context.Context, work func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	a.start(ctx, g)
	g.Go(func() error { return work(ctx) })
	return g.Wait()
}

// outlive runs work until ctx ends and it has drained, or until it or one of the parts fails. What work starts in the group
// ends with it; the parts outlive it, so that a stop that takes its time can be watched.
func (a *around) outlive(ctx context.Context, work func(context.Context, *errgroup.Group) error) error {
	others, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer end()
		return work(gctx, g)
	})
	a.start(others, g)
	return g.Wait()
}

// start runs the parts in g until ctx ends. The sender ends last, with what the monitor had to tell.
func (a *around) start(ctx context.Context, g *errgroup.Group) {
	last, end := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error {
		defer end()
		return a.alerting.Run(ctx)
	})
	if a.webhook != nil {
		g.Go(func() error { return a.webhook.Run(last) })
	}
	if a.server != nil {
		g.Go(func() error { return a.server.Run(ctx) })
	}
	if a.page != nil {
		g.Go(func() error { return a.page.Run(ctx) })
	}
	if a.traces != nil {
		g.Go(func() error { return a.traces.Run(ctx) })
	}
}
