package service

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/stay"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/page"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/runbook"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// pollingService is everything that runs in one process with source: polling.
type pollingService struct {
	*process
	engine atomic.Pointer[pollingEngine] // the present attempt's
	last   *lastWord
	stay   *stay.Stay
}

// pollingEngine is a relay with its metrics. It runs once; the next attempt has another one.
type pollingEngine struct {
	*polling.Relay
	metrics *telemetry.Metrics
	ran     bool
}

// pollingReport is the answer of /status.
type pollingReport struct {
	polling.Status
	Cause  alert.Cause   `json:"cause"`
	Alerts []FiringAlert `json:"alerts"` // the firing alerts, the worst first

	// Acknowledged since the process started, the largest first, twenty at most.
	Topics []telemetry.TopicCount `json:"topics"`
}

// newPollingService builds the parts and binds the HTTP address. It connects to nothing.
func newPollingService(ctx context.Context, p *process) (*pollingService, error) {
	s := &pollingService{process: p}
	if err := s.newEngine(); err != nil {
		return nil, err
	}
	var judge diagnose.Polling
	s.watchAlerts(alert.Config{
		Judge: func(level func(rule, subject string) alert.Level) []alert.Finding {
			found := judge.Judge(s.status().Account(), wiring.BacklogLimits(s.Config), level, time.Now())
			return append(found, standingFinding(s.stay, ""))
		},
		Cause: func() alert.Cause { return PollingCause(s.status()) },
	}, diagnose.PollingRules()...)
	s.last = newLastWord(s.process, "")
	s.stay = newStay(s.process, s.last)
	handlers := telemetry.Handlers{Ready: s.ready, Status: func() any { return s.report() }}
	return s, s.listen(ctx, handlers, page.New(page.Config{
		Relay: s.figures, Slots: func() []page.Slot { return nil }, SlotInterval: s.Config.Monitor.Interval,
		Version: s.Build.Version, Runbook: runbook.Handler(),
	}))
}

// newEngine builds the relay of an attempt, and its metrics.
func (s *pollingService) newEngine() error {
	registry := prometheus.NewRegistry()
	schemas, err := s.schemaRegistry()
	if err != nil {
		return err
	}
	pc, err := wiring.PollingRelay(s.Config, s.Logger, registry, schemas)
	if err != nil {
		return err
	}
	r, err := polling.New(pc)
	if err != nil {
		return err
	}
	s.engine.Store(&pollingEngine{Relay: r, metrics: pc.Metrics})
	s.relayRegistry.Store(registry)
	return nil
}

// serve runs the relay, and the parts beside it, until ctx ends and the relay has drained, or until one of them fails.
func (s *pollingService) serve(ctx context.Context) error {
	return s.outlive(ctx, func(ctx context.Context, _ *errgroup.Group) error { return s.stay.Run(ctx, s.work) })
}

// work makes one attempt. It returns when all of it has ended.
func (s *pollingService) work(ctx context.Context) error {
	if s.engine.Load().ran {
		if err := s.newEngine(); err != nil {
			return err
		}
	}
	s.last.recall(ctx)
	e := s.engine.Load()
	e.ran = true
	around, end := context.WithCancel(ctx)
	defer end()
	g, around := errgroup.WithContext(around)
	g.Go(func() error { return s.last.clearOnceWorking(around, s.ready) })
	g.Go(func() error {
		// A server that is away by now is another cause, which the relay's own state names.
		return s.stay.Watch(around, func() bool {
			st := e.Status().State
			return stay.Works(st.Name) || st.Reason != ""
		})
	})
	g.Go(func() error {
		defer end()
		return s.decisions(e.Relay).Around(around, e.Known, e.Run)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	s.last.ends()
	return nil
}

func (s *pollingService) ready() (bool, string) {
	if why := s.stay.Standing(); why != nil {
		return false, "waits for an operator: " + why.State.Reason
	}
	return s.engine.Load().Ready()
}

// status is the relay's account of itself, and while the process stays, why.
func (s *pollingService) status() polling.Status {
	st := s.engine.Load().Status()
	if why := s.stay.Standing(); why != nil {
		st.State = why.State
		st.Ready, st.ReadyReason = s.ready()
	}
	return st
}

func (s *pollingService) report() pollingReport {
	st := s.status()
	st.Promises = Promises(s.Config)
	return pollingReport{
		Status: st, Cause: PollingCauseOrNone(st), Alerts: s.alerts(s.alerting.Alerts()),
		Topics: s.engine.Load().metrics.Topics(20),
	}
}

// figures are the samples of the page's history.
func (s *pollingService) figures() page.Relay {
	e := s.engine.Load()
	st := e.Status()
	bounds, counts, seconds := e.metrics.Latencies()
	r := page.Relay{
		Published: st.Counts.Published, Bounds: bounds, Counts: counts, Sum: seconds, Records: st.Window.Records,
		Bytes: st.Window.Bytes,
	}
	if st.Backlog != nil {
		r.Oldest = st.Backlog.Seconds()
	}
	return r
}

// PollingCause is why rows wait, as far as the relay knows.
func PollingCause(st polling.Status) alert.Cause {
	switch {
	case len(st.Halted) > 0:
		h := st.Halted[0]
		return alert.Cause{
			Code: diagnose.BadRow, Sentence: h.Message, Since: &h.Since, Object: "event " + h.EventID, Next: h.Next,
			Commands: h.Commands,
		}
	case st.State.Name == notRunning && !st.State.Remedy().IsZero():
		return alert.Cause{
			Code: stopped, Sentence: st.State.Reason, Since: &st.State.Since, Next: st.State.Next,
			Commands: st.State.Commands,
		}
	case st.State.Name == notRunning:
		return alert.Cause{
			Code: string(notRunning), Sentence: st.State.Reason,
			Next: "Start it.", Commands: []string{"cdc-outbox run"},
		}
	case st.State.Name == relay.NeedsOperator:
		return alert.Cause{
			Code: diagnose.NeedsOperator, Sentence: st.State.Reason, Since: &st.State.Since, Next: st.State.Next,
			Commands: st.State.Commands,
		}
	case st.State.Name == relay.Paused:
		return alert.Cause{
			Code: diagnose.Paused, Sentence: "P" + strings.TrimPrefix(st.State.Reason, "p") + ".",
			Since: &st.State.Since, Next: st.State.Next, Commands: st.State.Commands,
		}
	case st.State.Reason != "":
		return alert.Cause{
			Code: diagnose.PostgresUnreachable, Sentence: st.State.Reason, Since: &st.State.Since, Next: st.State.Next,
			Commands: st.State.Commands,
		}
	case len(st.Waits) > 0:
		w := st.Waits[0]
		return alert.Cause{
			Code: w.Kind, Sentence: w.Reason, Since: &w.Since, Object: w.Object, Next: w.Next,
			Commands: w.Commands,
		}
	}
	return alert.Cause{}
}

// PollingCauseOrNone is PollingCause, or if nothing waits, a cause that says so.
func PollingCauseOrNone(st polling.Status) (c alert.Cause) {
	if c = PollingCause(st); c.Code != "" {
		return c
	}
	return alert.Cause{Code: slotmonitor.CauseIdle, Sentence: "The relay waits for nothing."}
}
