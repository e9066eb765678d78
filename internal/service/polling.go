package service

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/diagnose"
	"github.com/cdc-outbox/cdc-outbox/internal/page"
	"github.com/cdc-outbox/cdc-outbox/internal/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// pollingService is everything that runs in one process where source is polling.
type pollingService struct {
	process
	relay   *polling.Relay
	metrics *telemetry.Metrics
	last    lastWord
}

// pollingReport is the answer of /status.
type pollingReport struct {
	polling.Status
	Cause  alert.Cause   `json:"cause"`
	Alerts []firingAlert `json:"alerts"` // what fires, the worst first

	// Acknowledged since the process started, the largest first, twenty at most.
	Topics []telemetry.TopicCount `json:"topics"`
}

// newPollingService builds the parts and binds the HTTP address. It connects to nothing.
func newPollingService(ctx context.Context, p process) (*pollingService, error) {
	s := &pollingService{process: p}
	pc, err := s.pollingConfig()
	if err != nil {
		return nil, err
	}
	s.metrics = pc.Metrics
	if s.relay, err = polling.New(pc); err != nil {
		return nil, err
	}
	var judge diagnose.Polling
	s.watchAlerts(alert.Config{
		Judge: func(level func(rule, subject string) alert.Level) []alert.Finding {
			st := s.relay.Status()
			s.last.takeBack(st.Ready)
			return judge.Judge(st.Account(), wiring.BacklogLimits(s.Config), level, time.Now())
		},
		Cause: func() alert.Cause { return PollingCause(s.relay.Status()) },
	}, diagnose.PollingRules()...)
	s.last = lastWord{webhook: s.webhook}
	handlers := telemetry.Handlers{Ready: s.relay.Ready, Status: func() any { return s.report() }}
	return s, s.listen(ctx, handlers, page.New(page.Config{
		Relay: s.figures, Slots: func() []page.Slot { return nil }, SlotInterval: s.Config.Monitor.Interval,
		Version: s.Build.Version,
	}))
}

// serve runs the relay, and what is beside it, until ctx ends and the relay has drained, or until one of them fails.
func (s *pollingService) serve(ctx context.Context) error {
	return s.outlive(ctx, func(ctx context.Context, _ *errgroup.Group) error {
		err := s.relay.Run(ctx)
		s.last.say(err)
		return err
	})
}

func (s *pollingService) report() pollingReport {
	st := s.relay.Status()
	return pollingReport{
		Status: st, Cause: PollingCauseOrNone(st), Alerts: alerts(s.alerting.Alerts()), Topics: s.metrics.Topics(20),
	}
}

// figures are the samples of the page's history.
func (s *pollingService) figures() page.Relay {
	st := s.relay.Status()
	bounds, counts := s.metrics.Latencies()
	r := page.Relay{
		Published: st.Counts.Published, Bounds: bounds, Counts: counts, Records: st.Window.Records,
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
	case st.State.Name == notRunning:
		return alert.Cause{
			Code: string(notRunning), Sentence: st.State.Reason,
			Next: "Start it.", Commands: []string{"cdc-outbox run"},
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

// PollingCauseOrNone is PollingCause, and where nothing waits, that.
func PollingCauseOrNone(st polling.Status) (c alert.Cause) {
	if c = PollingCause(st); c.Code != "" {
		return c
	}
	return alert.Cause{Code: slotmonitor.CauseIdle, Sentence: "The relay waits for nothing."}
}
