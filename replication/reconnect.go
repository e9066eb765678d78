package replication

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
)

// Phase is the state of Run.
type Phase uint8

const (
	Connecting Phase = iota + 1
	Streaming
	WaitingForSlot // another session holds the slot; Run takes over when that session releases it
	Waiting        // the stream broke or could not be opened; Run waits before it tries again
)

// String returns the phase's name as it appears in logs and on the status page.
func (p Phase) String() string {
	switch p {
	case Connecting:
		return "connecting"
	case Streaming:
		return "streaming"
	case WaitingForSlot:
		return "standby"
	case Waiting:
		return "waiting"
	default:
		return "unknown"
	}
}

// State is the argument of OnState.
type State struct {
	Phase     Phase
	Identity  Identity      // Streaming: the server and its slot
	HolderPID int           // Standby: the backend that holds the slot, 0 if the server does not say
	Err       error         // Standby, Waiting: why; Streaming: why the stream before broke, nil for the first
	RetryIn   time.Duration // Standby, Waiting: until the next attempt
	Barren    int           // Streaming: streams in a row, up to now, that broke before anything new came
}

const (
	backoffFirst = 100 * time.Millisecond
	backoffMost  = 10 * time.Second
	// slotInterval is how often a standby looks whether the slot is free.
	slotInterval = time.Second
	// slotGlimpse is the time after which a holder is asked for again, before it counts: commands that look at the
	// slot hold it for moments.
	slotGlimpse = 200 * time.Millisecond
	// settled is how long a stream that received nothing has to live before waiting starts small again.
	settled = time.Second
)

// Run keeps one stream open and calls consume with it, again and again: it connects, looks at the slot, starts
// replication, and when consume returns a Retry error it waits (100 ms growing to 10 s, with jitter) and does it all
// again. While another session holds the slot it waits and looks every second; it never takes the slot away.
//
// Run returns nil once ctx has ended or consume has returned nil, and else the first *fault.Error that is not Retry.
// When it returns, its connections are closed and its goroutines have ended; so have the goroutines of a stream once
// consume has returned, which must not keep it.
func Run(ctx context.Context, config Config, consume func(ctx context.Context, s *Stream) error) error {
	cfg, err := config.check()
	if err != nil {
		return err
	}
	r := &runner{
		cfg: cfg, consume: consume, silence: cfg.Silence, checkpoint: newCheckpoint(cfg),
		backoff: &backoff.ExponentialBackOff{
			InitialInterval: backoffFirst, MaxInterval: backoffMost, Multiplier: 2, RandomizationFactor: 0.5,
		},
	}
	defer r.checkpoint.close()
	for {
		done, err := r.once(ctx)
		switch {
		case err != nil && fault.KindOf(err) != fault.Retry && !isEndOfContext(ctx, err):
			return err
		case done || ctx.Err() != nil:
			return nil
		}
		if !r.wait(ctx, err) {
			return nil
		}
	}
}

type runner struct {
	cfg        *Config
	consume    func(context.Context, *Stream) error
	backoff    *backoff.ExponentialBackOff
	checkpoint *checkpoint   // nil: none is kept
	earlier    *Identity     // of the last stream, nil at first
	holder     int           // of the slot, as last logged
	glimpsed   int           // a holder that was met once
	silence    time.Duration // that the next stream puts up with
	advance    advance       // of the streams so far
	broke      error         // the last stream
	refused    rowRefusal    // of one row, so far
}

// once opens a stream and has it consumed. done: the consumer wants no more.
func (r *runner) once(ctx context.Context) (done bool, err error) {
	r.cfg.OnState(State{Phase: Connecting})
	s, err := r.open(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		s.leave()
		s.close()
		r.patience(s, err)
	}()
	id := s.Identity()
	r.earlier = &id
	if id.TimelineChanged {
		r.advance = advance{}
	}
	r.cfg.OnState(State{Phase: Streaming, Identity: id, Barren: r.advance.barren, Err: r.broke})
	r.cfg.Logger.Info("replication stream started", zap.Stringer(logkey.LSN, id.Start),
		zap.Stringer(logkey.ConfirmedFlush, id.ConfirmedFlush), zap.Int(logkey.ServerVersion, id.ServerVersion),
		zap.Int32(logkey.Timeline, id.Timeline))
	begun := r.cfg.Confirmed()
	err = r.consume(ctx, s)
	if r.advance.countStream(s, begun) {
		// however short its life: sessions that are ended again and again must not add up to an outage
		r.backoff.Reset()
	}
	err = r.unprintable(err)
	r.broke = err
	return err == nil, err
}

// mostPatience is how many times the configured silence is waited for at most.
const mostPatience = 16

// patience decides how long the next stream may be silent. A server that decodes a large transaction of tables that are
// not published says nothing while it goes through its changes, before PG 15 not even when it is asked, later only
// every half wal_sender_timeout. Cutting the connection makes it start over: with the same patience it would never get
// through. So a stream that has delivered nothing before it fell silent earns the next one twice the time.
func (r *runner) patience(s *Stream, err error) {
	var silent *silentServer
	if errors.As(err, &silent) && !s.delivered {
		r.silence = min(2*r.silence, mostPatience*r.cfg.Silence)
		return
	}
	r.silence = r.cfg.Silence
}

// wait passes the time until the next attempt; false: ctx has ended.
func (r *runner) wait(ctx context.Context, err error) bool {
	state := State{Phase: Waiting, Err: err}
	var held *slotHeld
	if errors.As(err, &held) && held.pid != r.holder && held.pid != r.glimpsed {
		r.glimpsed = held.pid
		return sleep(ctx, slotGlimpse)
	}
	if held != nil {
		state.Phase, state.HolderPID, state.RetryIn = WaitingForSlot, held.pid, slotInterval
		if held.pid != r.holder {
			r.cfg.Logger.Info("waiting for the slot", zap.Int(logkey.HolderPID, held.pid))
		}
		r.holder = held.pid
	} else {
		state.RetryIn = r.backoff.NextBackOff()
		if refused := new(pgconn.PgError); errors.As(err, &refused) && strings.HasPrefix(refused.Code, "28") {
			state.RetryIn = backoffMost // failed logins may lock an account
		}
		why, remedy := fault.Split(err)
		fields := []zap.Field{zap.String(logkey.Cause, why), zap.Duration(logkey.RetryIn, state.RetryIn)}
		if !remedy.IsZero() {
			fields = append(fields, zap.String(logkey.Next, remedy.Next),
				zap.Strings(logkey.Commands, remedy.Commands))
		}
		r.cfg.Logger.Warn("replication stream broken", fields...)
	}
	r.cfg.OnState(state)
	return sleep(ctx, state.RetryIn)
}

// sleep returns false when ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// isEndOfContext reports whether err is no more than the end of ctx.
func isEndOfContext(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()))
}
