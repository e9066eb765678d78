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

	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
)

// Config of a Monitor.
type Config struct {
	DSN      func() (string, error) // libpq DSN or URL; read again at each connect, so that a rotated password is seen
	Interval time.Duration          // between two ticks. Default 5s
	Only     []string               // names of slots to watch. Default: every logical slot of the server

	Thresholds Thresholds    // as a whole. Default: DefaultThresholds
	Repeat     time.Duration // an alert that still fires is reported again. Default 1h
	WALVolume  int64         // size of the volume that holds pg_wal. Default 0: not known

	// Judge, which may be nil, adds findings of the caller's at each tick, also while the server does not answer. now
	// is the level at which an alert fires. It is called from Run's goroutine, as Cause and Notify are.
	Judge func(now func(rule, slot string) alert.Level) []alert.Finding
	// Cause, which may be nil, knows better than the server why the slot waits; nil where nothing is known of it.
	Cause func(*Slot) alert.Cause
	// Notify, which may be nil, gets every event. It must not block.
	Notify func(alert.Event)

	Logger     *zap.Logger           // default: none
	Registerer prometheus.Registerer // default: no metrics
}

// Monitor polls until its Run ends. Its other methods may be called at any time from any goroutine.
type Monitor struct {
	alert.Board
	cfg    Config
	source source

	mu     sync.Mutex
	slots  []Slot
	polled time.Time // of the last answer
	asked  time.Time // when the first tick began
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
		cfg.Thresholds = DefaultThresholds
	}
	if cfg.Repeat <= 0 {
		cfg.Repeat = time.Hour
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	if len(cfg.Only) == 0 {
		cfg.Only = nil
	}
	m := &Monitor{cfg: cfg, source: &connection{dsn: cfg.DSN, only: cfg.Only, walFiles: cfg.WALVolume > 0}}
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
	hist, on := newHistory(prompt), alert.NewEngine(m.cfg.Repeat, supersedes)
	hist.volume = m.cfg.WALVolume
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = min(m.cfg.Interval, 250*time.Millisecond),
		max(m.cfg.Interval, 15*time.Second)
	m.mu.Lock()
	m.asked = time.Now()
	m.mu.Unlock()
	for {
		pause := m.cfg.Interval
		if m.tick(ctx, hist, on) {
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
func (m *Monitor) tick(ctx context.Context, hist *history, on *alert.Engine) bool {
	snap, err := m.source.snapshot(ctx)
	var slots []Slot
	if err == nil {
		slots, err = hist.add(snap, m.cfg.Thresholds)
	}
	if ctx.Err() != nil {
		return false
	}
	m.tell(err)
	events := m.collectFindings(slots, err, on)
	m.mu.Lock()
	m.err = err
	if err == nil {
		for i := range slots {
			slots[i].Alerts, slots[i].Level = on.About(slots[i].Name)
		}
		m.slots, m.polled = slots, time.Now()
	}
	known := m.slots
	m.mu.Unlock()
	m.Show(on)
	for _, e := range events {
		m.publish(e, known)
	}
	return err == nil
}

// collectFindings collects the findings about slots, when the server answered, about the monitor itself, and the
// caller's.
func (m *Monitor) collectFindings(slots []Slot, err error, on *alert.Engine) []alert.Event {
	now := time.Now()
	var events []alert.Event
	found := []alert.Finding{m.blind(err, now)}
	if err == nil {
		for _, s := range slots {
			found = append(found, judge(s, m.cfg.Thresholds, on.Level)...)
		}
	}
	if m.cfg.Judge != nil {
		found = append(found, m.cfg.Judge(on.Level)...)
	}
	if err == nil {
		events = on.End(func(name string) bool {
			return slices.ContainsFunc(slots, func(s Slot) bool { return s.Name == name })
		}, found, noLonger, now)
	}
	known := slots
	if err != nil {
		known = m.Latest() // of the last answer
	}
	alert.Attribute(found, func(subject string) alert.Cause { return m.causeOf(m.about(subject, known)) })
	return append(events, on.Add(found, now)...)
}

// tell logs when the server stops answering and when it answers again.
func (m *Monitor) tell(err error) {
	m.mu.Lock()
	before := m.err
	m.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		what, next := fault.Split(err)
		fields := []zap.Field{zap.Error(errors.New(what))}
		if next.Next != "" {
			fields = append(fields, zap.String(logkey.Next, next.Next))
		}
		if len(next.Commands) > 0 {
			fields = append(fields, zap.Strings(logkey.Commands, next.Commands))
		}
		m.cfg.Logger.Warn("slot monitor cannot ask the server, trying again", fields...)
	case err == nil && before != nil:
		m.cfg.Logger.Info("slot monitor reaches the server again")
	}
}

func (m *Monitor) blind(err error, now time.Time) alert.Finding {
	f := alert.Finding{Alert: alert.Blind}
	if err == nil {
		return f
	}
	m.mu.Lock()
	last := m.polled
	if last.IsZero() {
		last = m.asked
	}
	m.mu.Unlock()
	if age := now.Sub(last); age >= max(time.Minute, outdated(m.cfg.Interval)) {
		what, next := fault.Split(err)
		f.Level, f.Sentence = alert.Warn, fmt.Sprintf("The server has not answered the slot monitor for %s: %s.",
			human.Duration(age), what)
		f.Cause = alert.Cause{
			Code: alert.Blind, Sentence: f.Sentence, Since: &last, Next: next.Next, Commands: next.Commands,
		}
	}
	return f
}

// publish logs an event and hands it on.
func (m *Monitor) publish(e alert.Event, slots []Slot) {
	if about := m.about(e.Subject, slots); about != nil {
		e.Figures = about.Figures()
	}
	if e.Subject == "" && len(m.cfg.Only) == 1 {
		e.Subject = m.cfg.Only[0]
	}
	e.Log(m.cfg.Logger)
	if m.cfg.Notify != nil {
		m.cfg.Notify(e)
	}
}

// about is the slot that a finding or an event is about, nil where nothing is known of it. What is about the process as
// a whole is about its one slot.
func (m *Monitor) about(subject string, slots []Slot) *Slot {
	for i, s := range slots {
		if s.Name == subject || subject == "" && len(m.cfg.Only) == 1 {
			return &slots[i]
		}
	}
	return nil
}

func (m *Monitor) causeOf(s *Slot) alert.Cause {
	switch {
	case m.cfg.Cause != nil:
		return m.cfg.Cause(s)
	case s != nil:
		return s.Cause
	}
	return alert.Cause{}
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
