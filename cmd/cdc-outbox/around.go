package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/page"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/traces"
	"github.com/cdc-outbox/cdc-outbox/internal/webhook"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// around is what each process that stays has around its work: a monitor, where its alerts go, and what is served.
type around struct {
	monitor *slotmonitor.Monitor
	webhook *webhook.Sender   // nil without monitor.webhook
	server  *telemetry.Server // nil when http.listen is off
	page    *page.Page        // nil when http.listen is off, or there is none
	traces  *traces.Recorder  // nil without traces
}

// newRegistry holds what is known of the process itself.
func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	b := build()
	telemetry.BuildInfo(reg, b.Version, b.Revision, b.Go)
	return reg
}

// watch makes the monitor and the sender of its alerts, which may be those named.
func (a *around) watch(c *config.Loaded, mc slotmonitor.Config, reg *prometheus.Registry, alerts ...string) (err error) {
	if c.Monitor.Webhook.IsSet() {
		a.webhook = webhookSender(c, reg, mc.Logger)
		mc.Notify = a.webhook.Send
	}
	if a.monitor, err = slotmonitor.New(mc); err != nil {
		return err
	}
	telemetry.WatchAlerts(reg, a.monitor.Firing, alerts...)
	return nil
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
		return a.monitor.Run(ctx)
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
