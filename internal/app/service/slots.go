package service

import (
	"context"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/gap"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/lastword"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/page"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// Slots is the answer of the command monitor and of its /status.
type Slots struct {
	Slots []slotmonitor.Slot `json:"slots"`
	// Why the server does not answer; the slots are then from its last answer.
	Error string `json:"error,omitempty"`
	// Why the connectors of slots that are not read ended, by slot.
	LastWords map[string]*lastword.Word `json:"last_words,omitempty"`
	// The open gaps of the database that postgres.dsn names, by slot, and why they are not known.
	Gaps        map[string][]gap.Gap `json:"gaps,omitempty"`
	GapsUnknown string               `json:"gaps_unknown,omitempty"`
	// The firing alerts, the worst first; absent with --once, which knows no earlier sample.
	Alerts []FiringAlert `json:"alerts,omitempty"`
}

// Worst returns the highest level of all slots.
func (s Slots) Worst() alert.Level {
	worst := alert.OK
	for _, slot := range s.Slots {
		worst = max(worst, slot.Level)
	}
	if len(s.Gaps) > 0 {
		worst = alert.Critical
	}
	return worst
}

// causeWithOwn is the slot's cause. The configured slot, if it is lost, has the remedy that every command has for it:
// the monitor, which knows nothing of the configuration, would have it dropped.
func causeWithOwn(c *config.Loaded, slot *slotmonitor.Slot) alert.Cause {
	if slot.Name == c.Postgres.Slot && slot.Cause.Code == slotmonitor.CauseLost && !slot.Synced {
		return slot.Cause.With(replaceLost(c))
	}
	return slot.Cause
}

func (s *Slots) replaceOwn(c *config.Loaded) {
	for i := range s.Slots {
		s.Slots[i].Cause = causeWithOwn(c, &s.Slots[i])
	}
}

// AddGaps adds the open gaps, and the alert about them to their slots.
func (s *Slots) AddGaps(ctx context.Context, c *config.Loaded, only []string) {
	s.replaceOwn(c)
	var err error
	if s.Gaps, err = gapsOfSlots(ctx, c, only); err != nil {
		s.GapsUnknown, _ = fault.Split(err)
	}
	for i := range s.Slots {
		slot := &s.Slots[i]
		if f := gapFinding(slot.Name, s.Gaps[slot.Name]); f.Level != alert.OK {
			slot.Alerts = append(slot.Alerts, alert.Alert{Rule: f.Alert, Level: f.Level, Sentence: f.Sentence})
			slot.Level = max(slot.Level, f.Level)
		}
	}
}

// SlotWatch is the command monitor at work.
type SlotWatch struct {
	*process
	monitor *slotmonitor.Monitor
	gaps    slotGaps
}

// WatchSlots builds a monitor of the slots that mc names and binds the HTTP address. It connects to nothing.
func WatchSlots(ctx context.Context, o Options, mc slotmonitor.Config) (*SlotWatch, error) {
	w := &SlotWatch{process: newProcess(o)}
	mc.Judge = func(func(rule, slot string) alert.Level) []alert.Finding {
		if answered, err := w.monitor.State(); answered.IsZero() || err != nil {
			return nil // the slots are not known yet, or the server does not answer
		}
		w.gaps.look(ctx, w.Config, mc.Only, w.Logger)
		return w.gaps.findings(w.monitor.Latest())
	}
	mc.Cause = func(slot *slotmonitor.Slot) alert.Cause {
		if slot == nil {
			return alert.Cause{}
		}
		return causeWithOwn(o.Config, slot)
	}
	var err error
	if w.monitor, err = w.watchSlots(mc, append(slotmonitor.Rules(), diagnose.EventsMayBeMissing)...); err != nil {
		return nil, err
	}
	return w, w.listen(
		ctx, telemetry.Handlers{Ready: w.ready, Status: func() any { return w.slots() }},
		page.New(w.pageConfig(mc, w.monitor, nil)),
	)
}

// Run watches until ctx ends or a part fails, and gives show, unless it is nil, the slots after every sample and at
// every change of the server's error.
func (w *SlotWatch) Run(ctx context.Context, show func(Slots) error) error {
	return w.run(ctx, func(ctx context.Context) error {
		if show == nil {
			<-ctx.Done()
			return nil
		}
		return w.each(ctx, show)
	})
}

func (w *SlotWatch) each(ctx context.Context, show func(Slots) error) error {
	tick := time.NewTicker(min(w.Config.Monitor.Interval, time.Second) / 2)
	defer tick.Stop()
	var shown time.Time
	failed := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		answered, _ := w.monitor.State()
		s := w.slots()
		if answered.Equal(shown) && s.Error == failed {
			continue
		}
		shown, failed = answered, s.Error
		s.LastWords = LastWords(ctx, w.Config, s.Slots)
		if err := show(s); err != nil {
			return err
		}
	}
}

func (w *SlotWatch) slots() Slots {
	s := Slots{Slots: w.monitor.Latest(), Alerts: w.alerts(w.monitor.Alerts())}
	s.Gaps, s.GapsUnknown = w.gaps.list()
	if s.Slots == nil {
		s.Slots = []slotmonitor.Slot{}
	}
	if _, err := w.monitor.State(); err != nil {
		s.Error, _ = fault.Split(err)
	}
	s.replaceOwn(w.Config)
	return s
}

func (w *SlotWatch) ready() (bool, string) {
	answered, err := w.monitor.State()
	switch {
	case err != nil:
		what, _ := fault.Split(err)
		return false, "the server does not answer: " + what
	case answered.IsZero():
		return false, "starting"
	}
	return true, "watching"
}
