package nats

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/preflight"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Latest implements sink.Producer.
func (p *Producer) Latest(ctx context.Context, owner sink.Owner) (sink.Stored, bool, error) {
	stored, found, _, err := p.ask(ctx, owner)
	return stored, found, err
}

// Begin implements sink.Producer. It writes nothing: the first message is stored only after the end of the stream that
// is returned here, and if another owner has written in between, the session is over and the next one knows of it.
func (p *Producer) Begin(ctx context.Context, owner sink.Owner) (sink.Stored, bool, error) {
	stored, found, e, err := p.ask(ctx, owner)
	if err != nil {
		return stored, found, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ran != nil {
		return stored, found, p.ran
	}
	p.session = session{owner: owner.ID, created: e.info.Created, fresh: true}
	p.limits.message = int64(e.info.Config.MaxMsgSize)
	p.queue.begin(e.info.State.LastSeq)
	p.cfg.Identity.set(e.info)
	p.poke()
	return stored, found, nil
}

// ask looks at the end of the stream.
func (p *Producer) ask(ctx context.Context, owner sink.Owner) (stored sink.Stored, found bool, e *end, err error) {
	complete := false
	err = p.untilAnswered(ctx, func(c *connection) (err error) {
		e, stored, complete, err = p.cfg.latest(ctx, c, owner.ID)
		return err
	})
	if err != nil {
		return sink.Stored{}, false, nil, err
	}
	stored.SystemID, found = owner.SystemID, stored.Commit > 0
	p.answered(e, found, complete)
	return stored, found, e, preflight.FirstFailure(judgeStream(&e.info.Config, p.cfg.ExactlyOnce))
}

// untilAnswered asks until JetStream answers, or the error is one that asking again does not change.
func (p *Producer) untilAnswered(ctx context.Context, question func(*connection) error) error {
	for wait := newBackoff(); ; {
		conn, err := p.connection(ctx)
		if err != nil {
			return err
		}
		err = question(conn)
		switch {
		case err == nil, fault.KindOf(err) == fault.Operator:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		p.report(streamTrouble(p.cfg.Stream, err))
		pause(ctx, wait.NextBackOff())
	}
}

// answered ends the trouble, and says once per session that the newest position may not be known.
func (p *Producer) answered(e *end, found, complete bool) {
	p.fine()
	if complete {
		return
	}
	p.log.Warn("the last messages of the stream were removed, or are not the connector's: events of the moments "+
		"before its last stop may be published again, unless the slot is past them",
		zap.String(logkey.Stream, p.cfg.Stream), zap.Uint64(logkey.Sequence, e.info.State.LastSeq),
		zap.Bool(logkey.Known, found))
}

// Keep implements sink.Producer.
func (p *Producer) Keep(ctx context.Context) error {
	var e *end
	err := p.untilAnswered(ctx, func(c *connection) (err error) {
		e, err = p.cfg.lookAt(ctx, c)
		return err
	})
	if err != nil {
		return err
	}
	return p.still(e)
}

// still is nil unless there are more messages in the stream than this session has sent. What it has sent while the
// question was in transit is counted: more can only be too many by another's.
func (p *Producer) still(e *end) error {
	p.mu.Lock()
	over := p.usable()
	if over == nil && e.info.State.LastSeq > p.queue.base+uint64(p.queue.tried) {
		over = p.anotherWriter(e.last)
	}
	p.mu.Unlock()
	if over != nil {
		p.end(over)
		return over
	}
	p.fine()
	return nil
}

// since keeps the begin of a trouble that lasts.
func since(before *sink.Trouble, now *sink.Trouble) time.Time {
	if before != nil && before.Kind == now.Kind && before.Object == now.Object {
		return before.Since
	}
	return time.Now()
}
