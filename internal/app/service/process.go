package service

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert/webhook"
	"github.com/cdc-outbox/cdc-outbox/internal/base/build"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/base/traces"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/schemaregistry"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/page"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// Options of a process that stays.
type Options struct {
	Config *config.Loaded
	Build  build.Info
	Logger *zap.Logger
}

// process holds the parts beside the work of a process that stays: a monitor, the sender of its alerts, the HTTP
// server.
type process struct {
	Options
	registry *prometheus.Registry

	// of the relay that runs, or ran last: a relay that is built again registers its metrics again
	relayRegistry atomic.Pointer[prometheus.Registry]

	alerting alerting
	webhook  *webhook.Sender   // nil without monitor.webhook
	server   *telemetry.Server // nil when http.listen is off
	page     *page.Page        // nil when http.listen is off, or there is none
	traces   *traces.Recorder  // nil without traces

	schemas *schemaregistry.Registry // of all attempts; nil without router.registry.url
}

// alerting judges at intervals, and knows the firing alerts.
type alerting interface {
	Run(ctx context.Context) error
	Firing() []string
	Alerts() []alert.FiringAlert
}

// newProcess returns a process without parts. Its registry holds the metrics of the process itself.
func newProcess(o Options) *process {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	telemetry.BuildInfo(reg, o.Build.Version, o.Build.Revision, o.Build.Go)
	return &process{Options: o, registry: reg}
}

// schemaRegistry is nil if there is none. What is known of schemas outlives an attempt.
func (p *process) schemaRegistry() (_ *schemaregistry.Registry, err error) {
	if p.schemas == nil {
		p.schemas, err = wiring.Schemas(p.Config, p.Logger)
	}
	return p.schemas, err
}

// watchSlots makes the monitor of the slots and the sender of its alerts, which may be those named.
func (p *process) watchSlots(mc slotmonitor.Config, alerts ...string) (*slotmonitor.Monitor, error) {
	mc.Logger, mc.Registerer, mc.Notify = p.Logger, p.registry, p.notify()
	monitor, err := slotmonitor.New(mc)
	if err != nil {
		return nil, err
	}
	p.alerting = monitor
	telemetry.WatchAlerts(p.registry, monitor.Levels, alerts...)
	return monitor, nil
}

// watchAlerts makes a monitor without slots and the sender of its alerts, which may be those named.
func (p *process) watchAlerts(mc alert.Config, alerts ...string) {
	mc.Logger, mc.Notify = p.Logger, p.notify()
	mc.Interval, mc.Repeat = p.Config.Monitor.Interval, p.Config.Monitor.RepeatInterval
	monitor := alert.NewMonitor(mc)
	p.alerting = monitor
	telemetry.WatchAlerts(p.registry, monitor.Levels, alerts...)
}

// notify makes the sender of alerts; nil: no receiver is configured.
func (p *process) notify() func(alert.Event) {
	if !p.Config.Monitor.Webhook.IsSet() {
		return nil
	}
	p.webhook = p.webhookSender()
	return p.webhook.Send
}

// listen binds the address unless http.listen is off. shown may be nil.
func (p *process) listen(ctx context.Context, h telemetry.Handlers, shown *page.Page) (err error) {
	if p.Config.HTTP.Off() {
		return nil
	}
	h.Metrics = prometheus.Gatherers{p.registry, prometheus.GathererFunc(p.gatherRelay)}
	if shown != nil {
		p.page, h.Page = shown, shown
	}
	if p.server, err = telemetry.Listen(ctx, p.Config.HTTP.Listen, h); err != nil {
		return err
	}
	fields := []zap.Field{zap.String(logkey.Address, p.server.Addr())}
	if shown != nil {
		fields = append(fields, zap.String(logkey.Page, pageAddress(p.server.Addr())))
	}
	p.Logger.Info("listening", fields...)
	return nil
}

func (p *process) gatherRelay() ([]*dto.MetricFamily, error) {
	if r := p.relayRegistry.Load(); r != nil {
		return r.Gather()
	}
	return nil, nil
}

// run runs the parts beside work until ctx ends or one of them fails.
func (p *process) run(ctx context.Context, work func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	p.start(ctx, g)
	g.Go(func() error { return work(ctx) })
	return g.Wait()
}

// outlive runs work until ctx ends and it has drained, or until it or one of the parts fails. Goroutines that work
// starts in the group end with it; the parts outlive it, so that a slow stop can be watched.
func (p *process) outlive(ctx context.Context, work func(context.Context, *errgroup.Group) error) error {
	others, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer end()
		return work(gctx, g)
	})
	p.start(others, g)
	return g.Wait()
}

// start runs the parts in g until ctx ends. The sender ends last, after the monitor's last alerts.
func (p *process) start(ctx context.Context, g *errgroup.Group) {
	last, end := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error {
		defer end()
		return p.alerting.Run(ctx)
	})
	if p.webhook != nil {
		g.Go(func() error { return p.webhook.Run(last) })
	}
	if p.server != nil {
		g.Go(func() error { return p.server.Run(ctx) })
	}
	if p.page != nil {
		g.Go(func() error { return p.page.Run(ctx) })
	}
	if p.traces != nil {
		g.Go(func() error { return p.traces.Run(ctx) })
	}
}
