package service

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/app/wiring"
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/postgres/setup"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/connector"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/polling"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/stay"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/page"
	"github.com/cdc-outbox/cdc-outbox/slotmonitor"
)

// walService is everything that runs in one process with source: wal.
type walService struct {
	*process
	admin   setup.Config
	engine  atomic.Pointer[engine] // the present attempt's
	monitor *slotmonitor.Monitor
	last    *lastWord
	stay    *stay.Stay

	startup     atomic.Pointer[waiting] // why the connector has not begun yet, nil once it has
	unpublished atomic.Pointer[misfit]  // the last check's error about the publication, nil when all was well

	harm atomic.Pointer[fault.Wait] // the last check's finding that harms others, nil when there was none

	otherRelay atomic.Pointer[fault.Wait] // the last check's warning of another relay

	gaps     openGaps
	failover nextFailover

	warned bool // the warning that a table may be polled as well was logged

	refused error // why a lost slot was not healed; of the goroutine that relays

	onset onset // of what the slot waits for

	ensured atomic.Int64 // when publication and slot were last seen to be there, Unix nanoseconds
}

// engine is a connector with its metrics. It runs once; the next attempt has another one.
type engine struct {
	*connector.Connector
	metrics *telemetry.Metrics
	publishes
	ran bool
}

// waiting is why the connector has not begun, and the remedy.
type waiting struct {
	why    string
	remedy fault.Remedy
	object string
	since  time.Time // zero: since the start
}

// newWALService builds the parts and binds the HTTP address. It connects to nothing.
func newWALService(ctx context.Context, p *process) (*walService, error) {
	s := &walService{process: p, onset: onset{now: time.Now}}
	s.startup.Store(&waiting{why: "looking at publication and slot"})
	var err error
	if s.admin, err = wiring.Admin(s.Config, false); err != nil {
		return nil, err
	}
	s.admin.Logger, s.admin.Waits = s.Logger, s.startsAfter
	if err := s.newEngine(); err != nil {
		return nil, err
	}
	mc := wiring.Monitor(s.Config)
	var rules diagnose.Relay
	mc.Judge = func(func(rule, subject string) alert.Level) []alert.Finding {
		found := rules.Judge(s.connectorStatus().Account(), s.missing(), time.Now())
		return append(found, standingFinding(s.stay, s.Config.Postgres.Slot), s.gaps.finding(), s.failover.finding())
	}
	mc.Cause = s.causeOf
	if s.monitor, err = s.watchSlots(mc, append(slotmonitor.Rules(), diagnose.Rules()...)...); err != nil {
		return nil, err
	}
	if err := p.registry.Register(&s.failover); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	s.last = newLastWord(s.process, s.Config.Postgres.Slot)
	s.stay = newStay(s.process, s.last)
	return s, s.listen(ctx, telemetry.Handlers{Ready: s.readyz, Status: func() any { return s.status() }},
		page.New(s.pageConfig(mc, s.monitor, s.figures)))
}

// newEngine builds the connector of an attempt. Its metrics replace the metrics of the attempt
// before, and the counters begin again, as after a restart.
func (s *walService) newEngine() error {
	registry := prometheus.NewRegistry()
	cc, b, err := s.connectorConfig(s.admin, registry)
	if err != nil {
		return err
	}
	c, err := connector.New(cc)
	if err != nil {
		return err
	}
	s.traces = cc.Traces
	s.engine.Store(&engine{Connector: c, metrics: cc.Metrics, publishes: b.publishes(c)})
	s.relayRegistry.Store(registry)
	return nil
}

// figures are the samples of the page's history.
func (s *walService) figures() page.Relay {
	e := s.engine.Load()
	return relayFigures(e.Connector, e.metrics)
}

// serve runs the connector, and the parts beside it, until ctx ends and the connector has drained, or until one of them
// fails.
func (s *walService) serve(ctx context.Context) error {
	return s.outlive(ctx, func(ctx context.Context, _ *errgroup.Group) error { return s.stay.Run(ctx, s.healing) })
}

// relay runs the connector once publication and slot are there, and its watchers. It returns when all of them have
// ended.
func (s *walService) relay(ctx context.Context) error {
	if s.engine.Load().ran {
		s.startup.Store(&waiting{why: "looking at publication and slot"})
		s.unpublished.Store(nil)
		if err := s.newEngine(); err != nil {
			return err
		}
	}
	err := s.ensure(ctx)
	s.last.recall(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	s.ensured.Store(time.Now().UnixNano())
	s.lookBefore(ctx)
	e := s.engine.Load()
	watch := s.decisions(e.Connector)
	if s.awaitDecisions(ctx, watch); ctx.Err() != nil {
		return nil
	}
	s.startup.Store(nil)
	e.ran = true
	around, end := context.WithCancel(ctx)
	defer end()
	g, around := errgroup.WithContext(around)
	g.Go(func() error { return s.watchMembership(around) })
	g.Go(func() error { return e.lookAtEnds(around, s.Config.Monitor.Interval, s.Logger) })
	g.Go(func() error { return s.watchFailover(around) })
	g.Go(func() error { return watch.Run(around) })
	g.Go(func() error { return s.last.clearOnceWorking(around, s.ready) })
	g.Go(func() error { return s.stay.Watch(around, func() bool { return stay.Works(e.Status().State.Name) }) })
	g.Go(func() error {
		defer end()
		return e.Run(around)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	s.last.ends()
	return nil
}

// ensure makes sure that publication and slot are there, and waits for a server that is not.
func (s *walService) ensure(ctx context.Context) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 100*time.Millisecond, 10*time.Second
	said := ""
	for {
		dsn, err := wiring.DSN(s.Config)
		if err == nil {
			err = s.unpolled(ctx, dsn) // first: a slot that Ensure creates would hold back WAL without a reader
		}
		if err == nil {
			err = s.heal(ctx, dsn)
		}
		if err == nil {
			err = setup.Ensure(ctx, dsn, s.admin, s.Config.Postgres.Setup == "auto")
		}
		switch {
		case err == nil || ctx.Err() != nil:
			return nil //nolint:nilerr // a stop does not fail the start
		case fault.KindOf(err) != fault.Retry:
			return err
		}
		s.startsAfter(err)
		s.stay.GoesOn()          // the process waits for something else now
		if said != err.Error() { // once for each reason, however long it lasts
			said = err.Error()
			s.Logger.Warn("publication and slot cannot be checked, trying again", telemetry.ErrorFields(err)...)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// startsAfter notes what the start waits for.
func (s *walService) startsAfter(err error) {
	w := waiting{since: time.Now().UTC()}
	w.why, w.remedy = fault.Split(err)
	var known *fault.Error
	if errors.As(err, &known) {
		w.object = known.Object
	}
	if was := s.startup.Load(); was != nil && was.object == w.object && !was.since.IsZero() {
		w.since = was.since // the reason may have a figure in it that grows
	}
	s.startup.Store(&w)
}

// unpolled refuses tables that a relay polls at this moment, and warns of tables that a relay might poll.
func (s *walService) unpolled(ctx context.Context, dsn string) error {
	if s.admin.HotStandby && s.admin.PrimaryDSN != "" {
		dsn = s.admin.PrimaryDSN // rows are marked on the primary
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	warnings, err := polling.RefuseBesideLog(
		ctx, dsn,
		polling.Setup{
			Tables: s.admin.Tables, Columns: polling.Columns{Published: s.Config.Polling.Columns.PublishedAt},
		},
	)
	if s.warned {
		return err
	}
	for _, w := range warnings {
		s.warned = true
		s.Logger.Warn("a table that is read from the log may be polled as well", append(
			telemetry.RemedyFields(w.ToDo()),
			zap.String(logkey.Object, w.Subject), zap.String(logkey.Reason, w.Found+" "+w.Why))...)
	}
	return err
}

func (s *walService) ready() (bool, string) {
	if why := s.stay.Standing(); why != nil {
		return false, "waits for an operator: " + why.State.Reason
	}
	if w := s.startup.Load(); w != nil {
		return false, "starting: " + w.why
	}
	if err := s.missing(); err != nil {
		why, _ := fault.Split(err)
		return false, "rows of the outbox are missing from the stream: " + why
	}
	return s.engine.Load().Ready()
}

// readyz is the answer of /readyz. With http.standby_ready, an instance whose turn may come at any moment is available.
func (s *walService) readyz() (bool, string) {
	if s.Config.HTTP.StandbyReady && s.stay.Standing() == nil && s.startup.Load() == nil && s.missing() == nil {
		if why, waits := s.engine.Load().Waits(); waits {
			return true, why
		}
	}
	return s.ready()
}

// connectorStatus is the connector's account of itself, and before it has begun, of its wait.
func (s *walService) connectorStatus() connector.Status {
	st := s.engine.Load().Status()
	if w := s.startup.Load(); w != nil {
		st.State.Reason, st.State.Next, st.State.Commands = w.why, w.remedy.Next, w.remedy.Commands
		if !w.since.IsZero() {
			st.State.Since = w.since
		}
	}
	if why := s.stay.Standing(); why != nil {
		st.State = why.State
	}
	unpublished := s.unpublished.Load().wait()
	if s.stay.Standing() != nil {
		unpublished = nil // the state says it
	}
	for _, said := range []*fault.Wait{unpublished, s.harm.Load(), s.otherRelay.Load()} {
		if said != nil {
			st.Waits = append(st.Waits, *said)
		}
	}
	st.Ready, st.ReadyReason = s.ready()
	return st
}

// missing is the last check's error about the publication, nil when all was well.
func (s *walService) missing() error {
	if m := s.unpublished.Load(); m != nil {
		return m.err
	}
	return nil
}

// status is the answer of /status.
func (s *walService) status() Status {
	st := s.slotStatus()
	st.Promises = Promises(s.Config)
	st.Alerts = s.alerts(s.monitor.Alerts())
	st.Gaps = s.gaps.list()
	if s.page != nil {
		st.Pace = new(s.page.Pace(s.Config.Postgres.Slot, time.Now()))
	}
	return st
}

// causeOf is the cause of a check of the monitor, whose answer is slot. It is nil if the server has none, or has never
// answered.
func (s *walService) causeOf(slot *slotmonitor.Slot) alert.Cause {
	st := s.connectorStatus()
	answered, err := s.monitor.State() // as of the check before
	switch {
	case slot != nil && slot.SampledAt.After(answered):
		err = nil
	case slot == nil && err == nil && answered.UnixNano() <= s.ensured.Load():
		return diagnose.Cause(st.Account(), nil, time.Now())
	}
	return withSlot(st, slot, err, &s.onset).Cause
}

func (s *walService) slotStatus() Status {
	st := s.connectorStatus()
	answered, err := s.monitor.State()
	var slot *slotmonitor.Slot
	for _, known := range s.monitor.Latest() {
		if known.Name == s.Config.Postgres.Slot {
			slot = &known
		}
	}
	if err == nil && answered.UnixNano() <= s.ensured.Load() {
		// The monitor has not looked since the slot was made.
		return Status{Status: st, Cause: diagnose.Cause(st.Account(), nil, time.Now())}
	}
	return withSlot(st, slot, err, &s.onset)
}
