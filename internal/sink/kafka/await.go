package kafka

import (
	"context"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// await gives up the lock until something has changed. It fails as soon as the session is over, for nothing that is
// waited for will happen then.
func (p *Producer) await(ctx context.Context) error {
	if p.ended != nil {
		return p.ended
	}
	return p.pause(ctx)
}

// pause gives up the lock until something has changed.
func (p *Producer) pause(ctx context.Context) error {
	changed := p.changed
	p.waiters++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.waiters--
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.stopped:
		return p.ending()
	case <-changed:
		return nil
	}
}

// ending is the error of calls after Run.
func (p *Producer) ending() error {
	if p.fatal != nil {
		return p.fatal
	}
	return sink.ErrStopped
}

// announce wakes every caller of await.
func (p *Producer) announce() {
	if p.waiters > 0 {
		close(p.changed)
		p.changed = make(chan struct{})
	}
}
