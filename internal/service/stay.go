package service

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/diagnose"
	"github.com/cdc-outbox/cdc-outbox/internal/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
)

// stay runs the relay again and again where on_fault is stay: an error ends an attempt, and the process lives on, not
// ready, and says why. Each attempt is what a restarted process would do: its relay is a new one, and the relay before
// has ended completely, with its session in Postgres and its producer.
type stay struct {
	on   bool
	slot string
	log  *zap.Logger
	last *lastWord

	first, again time.Duration // between attempts: at first, and at most

	why  atomic.Pointer[standing] // nil while nothing is known to be wrong
	told string                   // the reason that was logged
}

// standing is why the relay does not run.
type standing struct {
	state relay.State
	err   error
}

// The first attempts come soon, because the trouble may be short. Later ones come every few seconds.
const stayFirst, stayAgain = time.Second, 5 * time.Second

func newStay(p *process, slot string, last *lastWord) stay {
	return stay{
		on: p.Config.OnFault == config.OnFaultStay, slot: slot, log: p.Logger, last: last,
		first: stayFirst, again: stayAgain,
	}
}

// run makes one attempt, or where the process stays, one after the other until ctx ends. A mistake in the configuration
// always ends the process: it cannot be corrected while it runs.
func (s *stay) run(ctx context.Context, attempt func(context.Context) error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = s.first, s.again
	for {
		err := attempt(ctx)
		switch {
		case err == nil:
			return nil
		case !s.on || ctx.Err() != nil || fault.KindOf(err) == fault.Config:
			s.last.say(err)
			return err
		}
		if s.last.takenBack() {
			s.told = "" // it worked in between
		}
		if s.stand(err) {
			wait.Reset()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// stand notes why the relay does not run, and logs and keeps each reason once.
func (s *stay) stand(err error) (fresh bool) {
	why, remedy := fault.Split(err)
	now := &standing{err: err, state: relay.State{
		Name: relay.NeedsOperator, Reason: why, Next: remedy.Next, Commands: remedy.Commands, Since: time.Now().UTC(),
	}}
	if was := s.why.Load(); was != nil && was.state.Reason == why {
		now.state.Since = was.state.Since
	}
	s.why.Store(now)
	if s.told == why {
		return false
	}
	s.told = why
	s.log.Error("stopped by an error; the process stays, checks again every few seconds, and continues when the cause "+
		"no longer exists", telemetry.ErrorFields(err)...)
	s.last.stays(err)
	return true
}

// goesOn forgets why the relay did not run: it works, or waits for something else by now.
func (s *stay) goesOn() {
	if s.why.Swap(nil) != nil {
		s.log.Info("the cause no longer exists; the relay continues")
	}
}

// watch forgets it as soon as the relay of an attempt does its work.
func (s *stay) watch(ctx context.Context, works func() bool) error {
	if s.why.Load() == nil {
		return nil
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if works() {
				s.goesOn()
				return nil
			}
		}
	}
}

// works reports whether a relay in this state does its work, waits for its turn, or halts at a row.
func works(state relay.StateName) bool {
	switch state {
	case relay.Starting, relay.Stopped, relay.NotRunning, relay.NeedsOperator:
		return false
	}
	return true
}

// standing is why the relay does not run, nil where it runs.
func (s *stay) standing() *standing { return s.why.Load() }

// finding is the alert while the process stays.
func (s *stay) finding() alert.Finding {
	f := alert.Finding{Alert: diagnose.ConnectorStopped, Subject: s.slot}
	if now := s.why.Load(); now != nil {
		f.Level, f.Sentence = alert.Critical, "The connector has stopped and waits for an operator: "+now.state.Reason
	}
	return f
}
