package polling

import (
	"context"
	"errors"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// workSessions runs the workers for one session with Kafka after the other.
func (r *Relay) workSessions(ctx context.Context) error {
	again, published := newRetry(), r.published.Load()
	for first := true; ; first = false {
		session, end := context.WithCancelCause(ctx)
		r.over.Store(&end)
		if !first {
			if err := r.giveUp(session); err != nil {
				end(nil)
				return err
			}
		}
		workers, life := errgroup.WithContext(session)
		for _, w := range r.workers {
			workers.Go(func() error { return w.run(life) })
		}
		err := workers.Wait()
		why := context.Cause(session)
		end(nil)
		if !errors.Is(why, sink.ErrSessionOver) || ctx.Err() != nil || r.isStopping() {
			return err
		}
		r.log.Warn("the session with Kafka is over; what it had not acknowledged is read again", zap.Error(why))
		if n := r.published.Load(); n != published {
			published = n
			again.reset()
		}
		again.wait(ctx, r.stopping)
	}
}

// sessionOver is called by the producer, with its lock.
func (r *Relay) sessionOver(why error) {
	if end := r.over.Load(); end != nil {
		(*end)(why)
	}
}

// giveUp empties the producer after the workers have ended: their claims are over, and the rows that were not marked
// are read again. It returns when the producer has reported every acknowledgement of the session before, since the
// tickets of the next one are the same.
func (r *Relay) giveUp(ctx context.Context) error {
	dropped := r.producer.Abandon()
	r.window.Release(dropped.Records, dropped.Bytes)
	return r.producer.Drain(ctx)
}
