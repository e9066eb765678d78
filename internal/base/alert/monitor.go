package alert

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Config of a Monitor.
type Config struct {
	Interval time.Duration // between two checks. Default 5s
	Repeat   time.Duration // an alert that still fires is reported again. Default 1h

	// Judge makes the findings of a check. now is the level at which an alert fires. It is called from Run's goroutine,
	// as Cause and Notify are.
	Judge func(now func(alert, subject string) Level) []Finding
	// Cause, which may be nil, is why of the findings that do not say it themselves.
	Cause func() Cause
	// Notify, which may be nil, gets every event. It must not block.
	Notify func(Event)

	Logger *zap.Logger // default: none
}

// Monitor judges at intervals until its Run ends. Firing and Alerts may be called at any time from any goroutine.
type Monitor struct {
	Board
	cfg Config
}

// NewMonitor checks nothing and starts nothing. Judge is required.
func NewMonitor(cfg Config) *Monitor {
	if cfg.Interval <= 0 {
		cfg.Interval = 5 * time.Second
	}
	if cfg.Repeat <= 0 {
		cfg.Repeat = time.Hour
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return &Monitor{cfg: cfg}
}

// Run judges until ctx ends, and returns nil then. Call it once.
func (m *Monitor) Run(ctx context.Context) error {
	on := NewEngine(m.cfg.Repeat, nil)
	tick := time.NewTicker(m.cfg.Interval)
	defer tick.Stop()
	for {
		found := m.cfg.Judge(on.Level)
		if m.cfg.Cause != nil {
			Attribute(found, func(string) Cause { return m.cfg.Cause() })
		}
		events := on.Add(found, time.Now())
		if ctx.Err() != nil {
			return nil
		}
		m.Show(on)
		for _, e := range events {
			m.publish(e)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (m *Monitor) publish(e Event) {
	e.Log(m.cfg.Logger)
	if m.cfg.Notify != nil {
		m.cfg.Notify(e)
	}
}

// Board shows the alerts that fire as of the last check to other goroutines.
type Board struct {
	mu     sync.Mutex
	firing []FiringAlert
}

// Show takes over the alerts that fire.
func (b *Board) Show(on *Engine) {
	firing := on.List()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.firing = firing
}

// Firing lists the names of the alerts that fire, each once.
func (b *Board) Firing() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Names(b.firing)
}

// Levels are the alerts that fire, each with the worst level at which it does, about whichever subject.
func (b *Board) Levels() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	levels := map[string]string{}
	for _, a := range slices.Backward(b.firing) { // the worst comes first
		levels[a.Rule] = a.Level.String()
	}
	return levels
}

// Alerts lists the alerts that fire, the worst first; the caller may keep and change the slice.
func (b *Board) Alerts() []FiringAlert {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]FiringAlert{}, b.firing...)
}
