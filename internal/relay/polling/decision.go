package polling

import (
	"context"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/badrow"
)

// pause is a pause in effect. over is closed with its end.
type pause struct {
	*relay.Pause
	over chan struct{}
}

// Pause stops publishing until it is called with nil: no lane is claimed, and of a batch that was read only the rows
// with the producer are waited for. The rest is read again afterwards. It is safe for concurrent use, and may be called
// again and again.
func (r *Relay) Pause(p *relay.Pause) {
	if p == nil && r.paused.Load() != nil {
		r.producer.Refresh()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.paused.Load()
	switch {
	case p == nil && was != nil:
		r.paused.Store(nil)
		close(was.over)
		if was.Unread == nil {
			r.log.Info("no pause is in effect any more; publishing continues")
		}
	case p != nil && was != nil:
		r.paused.Store(&pause{Pause: p, over: was.over})
	case p != nil:
		r.paused.Store(&pause{Pause: p, over: make(chan struct{})})
	}
	if p != nil && p.Unread == nil && (was == nil || was.Unread != nil) {
		r.log.Warn("paused by an operator; nothing is published", append(telemetry.RemedyFields(p.State().Remedy()),
			zap.String(logkey.Reason, p.Reason), zap.Time(logkey.Since, p.Since))...)
	}
}

// Known ends the time in which it is not known whether the relay is paused.
func (r *Relay) Known() {
	if p := r.paused.Load(); p != nil && p.Unread != nil {
		r.Pause(nil)
	}
}

// awaitResume waits while a pause lasts, or until a stop is asked for.
func (r *Relay) awaitResume(ctx context.Context, p *pause) {
	select {
	case <-p.over:
	case <-r.stopping:
	case <-ctx.Done():
	}
}

// Decide hands over an operator's decision about a row at which a lane is halted. It is safe for concurrent use, and
// may be called again and again.
func (r *Relay) Decide(d relay.Decision) {
	for _, s := range r.sources {
		s.mu.Lock()
		for lane, h := range s.halted {
			if d.Of(h.Position, h.EventID) {
				s.decided[lane] = d
				s.lanes.wake(lane)
			}
		}
		s.mu.Unlock()
	}
	r.signal()
}

// Halted lists the rows at which lanes are halted.
func (r *Relay) Halted() (all []*relay.HaltedRow) {
	for _, h := range r.haltedRows() {
		all = append(all, &h.HaltedRow)
	}
	return all
}

// decidedFor is the operator's decision about the row, if its lane is halted at it.
func (s *source) decidedFor(lane int, bad badrow.Row) (relay.Decision, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.decided[lane]
	return d, ok && d.Of(string(bad.Position), bad.EventID)
}

// passed ends the halt of a lane at a row about which an operator has decided.
func (r *Relay) passed(s *source, lane int, bad badrow.Row, d relay.Decision) {
	s.mu.Lock()
	delete(s.halted, lane)
	delete(s.decided, lane)
	s.lanes.wake(lane)
	s.mu.Unlock()
	r.log.Warn("the halted row is passed, as an operator decided", append(bad.Fields(),
		zap.String(logkey.Sentence, string(d.Action)+", by "+d.By+": "+d.Reason))...)
}

// withPass adds to the remedy of a halted row the command that passes it.
func withPass(r fault.Remedy, bad badrow.Row) fault.Remedy {
	if len(bad.Position) == 0 {
		return r
	}
	return r.Then(relay.PassRemedy(bad.EventID, string(bad.Position), string(bad.Reason)))
}
