package service

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
)

// BacklogWatch is the command monitor at work if source is polling: it reports rows that no relay publishes, also
// when no relay runs.
type BacklogWatch struct {
	*process
	cfg    polling.Config
	limits diagnose.BacklogLimits

	seen  atomic.Pointer[relay.Backlog] // the last answer
	blind atomic.Pointer[blindness]     // nil while the server answers
}

type blindness struct {
	err   string
	since time.Time
}

// BacklogReport is the answer of monitor and of its /status.
type BacklogReport struct {
	Backlog *relay.Backlog `json:"backlog"`
	Level   alert.Level    `json:"level"`
	Error   string         `json:"error,omitempty"`
}

// WatchBacklog builds the watch and binds the HTTP address. It connects to nothing; ctx ends its queries.
func WatchBacklog(ctx context.Context, o Options) (*BacklogWatch, error) {
	cfg, err := wiring.Polling(o.Config)
	if err != nil {
		return nil, err
	}
	w := &BacklogWatch{process: newProcess(o), cfg: cfg, limits: wiring.BacklogLimits(o.Config)}
	telemetry.WatchBacklog(w.registry, func() (rows, seconds float64) {
		if b := w.seen.Load(); b != nil {
			return float64(b.Rows), b.Seconds()
		}
		return 0, 0
	})
	w.watchAlerts(alert.Config{
		Judge: func(level func(rule, subject string) alert.Level) []alert.Finding { return w.checkBacklog(ctx, level) },
	}, diagnose.BacklogOld, diagnose.BacklogNotKnown)
	return w, w.listen(ctx, telemetry.Handlers{Ready: w.ready, Status: func() any { return w.report() }}, nil)
}

// Run watches until ctx ends or a part fails, and gives show, unless it is nil, the report at each interval.
func (w *BacklogWatch) Run(ctx context.Context, show func(BacklogReport) error) error {
	return w.run(ctx, func(ctx context.Context) error {
		if show == nil {
			<-ctx.Done()
			return nil
		}
		tick := time.NewTicker(w.Config.Monitor.Interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			if err := show(w.report()); err != nil {
				return err
			}
		}
	})
}

// LookAtBacklog asks the server once. critical is the sentence about a critical backlog, otherwise empty.
func LookAtBacklog(ctx context.Context, c *config.Loaded) (r BacklogReport, critical string, err error) {
	cfg, err := wiring.Polling(c)
	if err != nil {
		return r, "", err
	}
	b, err := polling.Look(ctx, cfg)
	if err != nil {
		return r, "", err
	}
	f := diagnose.Backlog(b, wiring.BacklogLimits(c), alert.OK)
	if f.Level == alert.Critical {
		critical = f.Sentence
	}
	return BacklogReport{Backlog: &b, Level: f.Level}, critical, nil
}

// blindFor is for how long the server may not answer before that is an alert.
const blindFor = time.Minute

// checkBacklog looks once. It is called at each tick, from one goroutine.
func (w *BacklogWatch) checkBacklog(ctx context.Context, level func(rule, subject string) alert.Level) []alert.Finding {
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
			blind.Level, blind.Sentence = alert.Warn, fmt.Sprintf(
				"The backlog cannot be looked at for %s: %s.", human.Duration(age), why,
			)
		}
		return []alert.Finding{blind}
	}
	w.blind.Store(nil)
	w.seen.Store(&b)
	return []alert.Finding{blind, diagnose.Backlog(b, w.limits, level(diagnose.BacklogOld, ""))}
}

func (w *BacklogWatch) report() BacklogReport {
	r := BacklogReport{Backlog: w.seen.Load()}
	if b := w.blind.Load(); b != nil {
		r.Error = b.err
	}
	if r.Backlog != nil {
		r.Level = diagnose.Backlog(*r.Backlog, w.limits, alert.OK).Level
	}
	return r
}

func (w *BacklogWatch) ready() (bool, string) {
	if b := w.blind.Load(); b != nil {
		return false, "the server does not answer: " + b.err
	}
	if w.seen.Load() == nil {
		return false, "starting"
	}
	return true, "watching"
}
