package slotmonitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Config of a Monitor.
type Config struct {
	DSN      func() (string, error) // libpq DSN or URL; read again at each connect, so that a rotated password is seen
	Interval time.Duration          // between two ticks. Default 5s
	Only     []string               // names of slots to watch. Default: every logical slot of the server

	// Thresholds as a whole default to 1 GiB and 10 GiB, one hour and ten minutes.
	Thresholds Thresholds

	Logger     *zap.Logger           // default: none
	Registerer prometheus.Registerer // default: no metrics
}

// Monitor polls until its Run ends. Its other methods may be called at any time from any goroutine.
type Monitor struct {
	cfg    Config
	source source

	mu     sync.Mutex
	slots  []Slot
	polled time.Time // of the last answer
	err    error
}

// New checks the configuration and registers the metrics. Nothing runs yet.
func New(cfg Config) (*Monitor, error) {
	if cfg.DSN == nil {
		return nil, errors.New("slotmonitor: DSN is not set")
	}
	if cfg.Interval <= 0 {
		cfg.Interval = 5 * time.Second
	}
	if cfg.Thresholds == (Thresholds{}) {
		cfg.Thresholds = Thresholds{WarnRetained: 1 << 30, CriticalRetained: 10 << 30, WarnTimeToLimit: time.Hour, CriticalTimeToLimit: 10 * time.Minute}
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	if len(cfg.Only) == 0 {
		cfg.Only = nil
	}
	m := &Monitor{cfg: cfg, source: &connection{dsn: cfg.DSN, only: cfg.Only}}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(collector{latest: m.fresh}); err != nil {
			return nil, fmt.Errorf("slotmonitor: register metrics: %w", err)
		}
	}
	return m, nil
}

// Run polls until ctx ends, and returns nil then: no error of the server ends it. It owns its connection and starts no
// goroutine that outlives it. Call it once.
func (m *Monitor) Run(ctx context.Context) error {
	defer m.source.close()
	hist, notes := newHistory(max(time.Minute, 4*m.cfg.Interval)), newNotifier()
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = min(m.cfg.Interval, 250*time.Millisecond), max(m.cfg.Interval, 15*time.Second)
	for {
		pause := m.cfg.Interval
		if m.tick(ctx, hist, notes) {
			wait.Reset()
		} else {
			pause = wait.NextBackOff()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// tick asks once and reports whether there was an answer.
func (m *Monitor) tick(ctx context.Context, hist *history, notes *notifier) bool {
	snap, err := m.source.snapshot(ctx)
	var slots []Slot
	if err == nil {
		slots, err = hist.add(snap, m.cfg.Thresholds)
	}
	if ctx.Err() != nil {
		return false
	}
	m.mu.Lock()
	before := m.err
	m.err = err
	if err == nil {
		m.slots, m.polled = slots, time.Now()
	}
	m.mu.Unlock()
	switch {
	case err != nil:
		if before == nil || before.Error() != err.Error() {
			m.cfg.Logger.Warn("slot monitor cannot ask the server, trying again", zap.Error(err))
		}
		return false
	case before != nil:
		m.cfg.Logger.Info("slot monitor reaches the server again")
	}
	for _, n := range notes.add(slots, snap.At) {
		n.log(m.cfg.Logger)
	}
	return true
}

// Latest returns the slots of the last answer, ordered by name; the caller may keep and change the slice. Each
// carries the time it was sampled at.
func (m *Monitor) Latest() []Slot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.slots)
}

// State returns when the server last answered, by the clock of this process (zero: never), and the error of the last
// tick, nil when it was answered.
func (m *Monitor) State() (answered time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.polled, m.err
}

func (m *Monitor) fresh() []Slot {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.polled) > outdated(m.cfg.Interval) {
		return nil
	}
	return m.slots
}
