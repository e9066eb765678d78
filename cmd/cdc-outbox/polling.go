package main

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/build"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/diagnose"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/page"
	"github.com/cdc-outbox/cdc-outbox/internal/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/routing"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
	"github.com/cdc-outbox/cdc-outbox/router"
)

// pollingService is everything that runs in one process where source is polling.
type pollingService struct {
	around
	cfg     *config.Loaded
	relay   *polling.Relay
	metrics *telemetry.Metrics
	last    lastWord
}

// pollingReport is the answer of /status.
type pollingReport struct {
	polling.Status
	Cause  alert.Cause            `json:"cause"`
	Alerts []firingAlert          `json:"alerts"` // what fires, the worst first
	Topics []telemetry.TopicCount `json:"topics"` // acknowledged since the process started, the largest first, twenty at most
}

// newPollingService builds the parts and binds the HTTP address. It connects to nothing.
func newPollingService(ctx context.Context, c *config.Loaded, reg *prometheus.Registry, log *zap.Logger) (*pollingService, error) {
	s := &pollingService{cfg: c}
	pc, err := pollingConfig(c, reg, log)
	if err != nil {
		return nil, err
	}
	s.metrics = pc.Metrics
	if s.relay, err = polling.New(pc); err != nil {
		return nil, err
	}
	var judge diagnose.Polling
	s.watch(c, alert.Config{
		Interval: c.Monitor.Interval, Repeat: c.Monitor.Repeat, Logger: log,
		Judge: func(level func(rule, subject string) alert.Level) []alert.Finding {
			st := s.relay.Status()
			s.last.takeBack(st.Ready)
			return judge.Judge(st.Account(), wiring.BacklogLimits(c), level, time.Now())
		},
		Cause: func() alert.Cause { return pollingCause(s.relay.Status()) },
	}, reg, diagnose.PollingRules()...)
	s.last = lastWord{webhook: s.webhook}
	if c.HTTP.Listen == config.ListenOff {
		return s, nil
	}
	return s, s.listen(ctx, c.HTTP.Listen, telemetry.Handlers{Metrics: reg, Ready: s.relay.Ready, Status: func() any { return s.report() }},
		page.New(page.Config{Relay: s.figures, Slots: func() []page.Slot { return nil }, SlotInterval: c.Monitor.Interval, Version: build.Of(version).Version}), log)
}

// run runs the relay, and what is around it, until ctx ends and the relay has drained, or until one of them fails.
func (s *pollingService) run(ctx context.Context) error {
	return s.outlive(ctx, func(ctx context.Context, _ *errgroup.Group) error {
		err := s.relay.Run(ctx)
		s.last.say(err)
		return err
	})
}

func (s *pollingService) report() pollingReport {
	st := s.relay.Status()
	return pollingReport{Status: st, Cause: causeOrNothing(st), Alerts: alerts(s.alerting.Alerts()), Topics: s.metrics.Topics(20)}
}

// figures are what the page's history is made of.
func (s *pollingService) figures() page.Relay {
	st := s.relay.Status()
	bounds, counts := s.metrics.Latencies()
	r := page.Relay{Published: st.Counts.Published, Bounds: bounds, Counts: counts, Records: st.Window.Records, Bytes: st.Window.Bytes}
	if st.Backlog != nil {
		r.Oldest = st.Backlog.Seconds()
	}
	return r
}

// pollingCause is why rows wait, as far as the relay knows.
func pollingCause(st polling.Status) alert.Cause {
	switch {
	case len(st.Halted) > 0:
		h := st.Halted[0]
		return alert.Cause{Code: diagnose.BadRow, Sentence: h.Message, Since: &h.Since, Object: "event " + h.EventID, Next: h.Next}
	case st.State.Name == notRunning:
		return alert.Cause{Code: string(notRunning), Sentence: st.State.Reason, Next: "Start it: cdc-outbox run"}
	case st.State.Reason != "":
		return alert.Cause{Code: diagnose.PostgresUnreachable, Sentence: st.State.Reason, Since: &st.State.Since, Next: st.State.Next}
	case len(st.Waits) > 0:
		w := st.Waits[0]
		return alert.Cause{Code: w.Kind, Sentence: w.Reason, Since: &w.Since, Object: w.Object, Next: w.Next}
	}
	return alert.Cause{}
}

// pollingConfig takes what the relay needs from the configuration.
func pollingConfig(c *config.Loaded, reg prometheus.Registerer, log *zap.Logger) (polling.Config, error) {
	cfg, err := wiring.Polling(c)
	if err != nil {
		return cfg, err
	}
	producer, err := wiring.Kafka(c)
	if err != nil {
		return cfg, err
	}
	metrics := telemetry.NewMetrics(reg)
	producer.Logger, producer.Registerer = log, reg
	producer.Reconnected = func() { metrics.Reconnected(telemetry.Kafka) }
	cfg.Kafka, cfg.Metrics, cfg.Logger = producer, metrics, log
	cfg.NewRouter = func() (*router.Router, error) { return router.New(routing.Config(c)) }
	cfg.DeadLetters = wiring.DeadLetters(c)
	cfg.Policies = wiring.Policies(c)
	return cfg, nil
}

// needsSlot refuses a command that is about the slot.
func needsSlot(c *config.Loaded, command, instead string) error {
	if c.Source != config.SourcePolling {
		return nil
	}
	return &fault.Error{Kind: fault.Config, Object: command, Err: errors.New("it is about a replication slot, and source is polling"), Next: instead}
}
