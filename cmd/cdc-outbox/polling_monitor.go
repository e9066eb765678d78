package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/diagnose"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/wiring"
)

// backlogWatch is the command monitor at work where source is polling: it tells of rows that nobody publishes, also when no
// relay runs that could.
type backlogWatch struct {
	around
	cfg    polling.Config
	limits diagnose.BacklogLimits

	seen  atomic.Pointer[relay.Backlog] // the last answer
	blind atomic.Pointer[blindness]     // nil while the server answers
}

type blindness struct {
	err   string
	since time.Time
}

// backlogReport is what monitor prints.
type backlogReport struct {
	Backlog *relay.Backlog `json:"backlog"`
	Level   alert.Level    `json:"level"`
	Error   string         `json:"error,omitempty"`
}

func (a *app) monitorPolling(ctx context.Context, c *config.Loaded, once, asJSON bool) error {
	cfg, err := wiring.Polling(c)
	if err != nil {
		return err
	}
	w := &backlogWatch{cfg: cfg, limits: wiring.BacklogLimits(c)}
	if once {
		b, err := polling.Look(ctx, cfg)
		if err != nil {
			return err
		}
		w.seen.Store(&b)
		if err := a.printBacklog(w.report(), asJSON); err != nil {
			return err
		}
		if f := diagnose.Backlog(b, w.limits, alert.OK); f.Level == alert.Critical {
			return &fault.Error{Kind: fault.Operator, Object: "backlog", Err: errors.New(f.Sentence), Next: "See whether a relay runs and what it waits for: cdc-outbox status"}
		}
		return nil
	}
	log, err := telemetry.NewLogger(a.stderr, c.Log.Level, c.Log.Format)
	if err != nil {
		return err
	}
	if err := w.build(ctx, c, log); err != nil {
		return err
	}
	return w.run(ctx, func(ctx context.Context) error {
		if !asJSON && !terminal(a.stdout) {
			<-ctx.Done()
			return nil
		}
		tick := time.NewTicker(c.Monitor.Interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			if err := a.printBacklog(w.report(), asJSON); err != nil {
				return err
			}
		}
	})
}

func (w *backlogWatch) build(ctx context.Context, c *config.Loaded, log *zap.Logger) error {
	reg := newRegistry()
	telemetry.WatchBacklog(reg, func() (rows, seconds float64) {
		if b := w.seen.Load(); b != nil {
			return float64(b.Rows), b.Seconds()
		}
		return 0, 0
	})
	w.watch(c, alert.Config{
		Interval: c.Monitor.Interval, Repeat: c.Monitor.Repeat, Logger: log,
		Judge: func(level func(rule, subject string) alert.Level) []alert.Finding { return w.judge(ctx, level) },
	}, reg, diagnose.BacklogOld, diagnose.BacklogNotKnown)
	if c.HTTP.Listen == config.ListenOff {
		return nil
	}
	return w.listen(ctx, c.HTTP.Listen, telemetry.Handlers{Metrics: reg, Ready: w.ready, Status: func() any { return w.report() }}, nil, log)
}

// blindFor is for how long the server may not answer before that is an alert.
const blindFor = time.Minute

// judge looks once. It is called at each tick, from one goroutine.
func (w *backlogWatch) judge(ctx context.Context, level func(rule, subject string) alert.Level) []alert.Finding {
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	b, err := polling.Look(limited, w.cfg)
	blind := alert.Finding{Alert: diagnose.BacklogNotKnown}
	if err != nil {
		why, _ := fault.Split(err)
		first := &blindness{err: why, since: time.Now()}
		if was := w.blind.Load(); was != nil {
			first.since = was.since
		}
		w.blind.Store(first)
		if age := time.Since(first.since); age >= blindFor {
			blind.Level, blind.Sentence = alert.Warn, fmt.Sprintf("The backlog cannot be looked at for %s: %s.", fault.Duration(age), why)
		}
		return []alert.Finding{blind}
	}
	w.blind.Store(nil)
	w.seen.Store(&b)
	return []alert.Finding{blind, diagnose.Backlog(b, w.limits, level(diagnose.BacklogOld, ""))}
}

func (w *backlogWatch) report() backlogReport {
	r := backlogReport{Backlog: w.seen.Load()}
	if b := w.blind.Load(); b != nil {
		r.Error = b.err
	}
	if r.Backlog != nil {
		r.Level = diagnose.Backlog(*r.Backlog, w.limits, alert.OK).Level
	}
	return r
}

func (w *backlogWatch) ready() (bool, string) {
	if b := w.blind.Load(); b != nil {
		return false, "the server does not answer: " + b.err
	}
	if w.seen.Load() == nil {
		return false, "starting"
	}
	return true, "watching"
}

func (a *app) printBacklog(r backlogReport, asJSON bool) error {
	if asJSON {
		return a.printLine(r)
	}
	text := "not known: " + r.Error
	if b := r.Backlog; b != nil {
		text = fmt.Sprintf("%d rows not published%s (%s)", b.Rows, oldest(b), r.Level)
		if b.Rows >= relay.MaxCounted {
			text = "at least " + text
		}
	}
	_, err := fmt.Fprintf(a.stdout, "%s  %s\n", time.Now().UTC().Format(time.TimeOnly), fault.Printable(text))
	return err
}
