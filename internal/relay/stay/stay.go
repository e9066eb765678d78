// Package stay runs a relay again and again if an error that ends it does not end the process: an attempt after the
// other, while the process is not ready and says why. Each attempt is like a restarted process: its relay is a new one,
// and the relay before has ended completely, with its session in Postgres and its producer.
package stay

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// Word keeps the reasons.
type Word interface {
	Say(error)              // why the process ends
	Stays(error, time.Time) // why the relay does not run, and since when
	TakenBack() bool        // the relay worked in between
}

// Config of a Stay.
type Config struct {
	On           bool          // otherwise the first attempt is the last
	First, Again time.Duration // between attempts: at first, and at most. Default: 1s, 5s
	Word         Word          // nil: none
	Logger       *zap.Logger
}

// The first attempts come soon, because the trouble may be short. Later ones come every few seconds.
const first, again = time.Second, 5 * time.Second

// Stay makes the attempts.
type Stay struct {
	cfg  Config
	why  atomic.Pointer[Standing] // nil while nothing is known to be wrong
	told string                   // the reason that was logged
	went atomic.Bool              // on, since a reason was logged
}

// Standing is why the relay does not run.
type Standing struct {
	State relay.State
	Err   error
}

// New fills in the defaults.
func New(cfg Config) *Stay {
	if cfg.First == 0 {
		cfg.First, cfg.Again = first, again
	}
	s := &Stay{cfg: cfg}
	if cfg.Word == nil {
		s.cfg.Word = unkept{s}
	}
	return s
}

// unkept keeps no reason: whether the relay worked in between is known from its attempts.
type unkept struct{ *Stay }

func (unkept) Say(error)              {}
func (unkept) Stays(error, time.Time) {}
func (u unkept) TakenBack() bool      { return u.went.Swap(false) }

// Run makes one attempt, or if the process stays, one after the other until ctx ends. A mistake in the configuration
// always ends the process: it cannot be corrected while it runs.
func (s *Stay) Run(ctx context.Context, attempt func(context.Context) error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = s.cfg.First, s.cfg.Again
	for {
		err := attempt(ctx)
		switch {
		case err == nil:
			return nil
		case !s.cfg.On || ctx.Err() != nil || fault.KindOf(err) == fault.Config:
			s.cfg.Word.Say(err)
			return err
		}
		if s.cfg.Word.TakenBack() {
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
func (s *Stay) stand(err error) (fresh bool) {
	why, remedy := fault.Split(err)
	now := &Standing{Err: err, State: relay.State{
		Name: relay.NeedsOperator, Reason: why, Next: remedy.Next, Commands: remedy.Commands, Since: time.Now().UTC(),
	}}
	var known *fault.Error
	if errors.As(err, &known) && !known.Since.IsZero() {
		now.State.Since = known.Since.UTC()
	}
	// The reason may have a figure in it that grows, or be the next one: the relay has not run since.
	if was := s.why.Load(); was != nil {
		now.State.Since = was.State.Since
	}
	s.why.Store(now)
	if s.told == why {
		return false
	}
	s.told = why
	s.cfg.Logger.Error("stopped by an error; the process stays, checks again every few seconds, and continues when "+
		"the cause no longer exists", telemetry.ErrorFields(err)...)
	s.cfg.Word.Stays(err, now.State.Since)
	return true
}

// GoesOn forgets why the relay did not run: it works, or waits for something else by now.
func (s *Stay) GoesOn() {
	if s.why.Swap(nil) != nil {
		s.went.Store(true)
		s.cfg.Logger.Info("the cause no longer exists; the relay continues")
	}
}

// Watch forgets it as soon as the relay of an attempt does its work.
func (s *Stay) Watch(ctx context.Context, works func() bool) error {
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
				s.GoesOn()
				return nil
			}
		}
	}
}

// Works reports whether a relay in this state does its work, waits for its turn, or halts at a row.
func Works(state relay.StateName) bool {
	switch state {
	case relay.Starting, relay.Stopped, relay.NotRunning, relay.NeedsOperator:
		return false
	}
	return true
}

// Standing is why the relay does not run, nil if it runs.
func (s *Stay) Standing() *Standing { return s.why.Load() }
