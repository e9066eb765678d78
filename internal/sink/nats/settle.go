package nats

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// settle asks for the end of the stream after an answer that is missing or refuses a message, and on a new connection.
// It acknowledges what is stored, and has the rest sent again.
func (f *flow) settle(ctx context.Context) {
	p := f.p
	e, err := p.cfg.lookAt(ctx, f.conn)
	switch {
	case f.conn.IsClosed():
		return
	case err != nil:
		f.later(streamTrouble(p.cfg.Stream, err))
		return
	}
	p.mu.Lock()
	n, why := p.judge(e)
	stored := p.queue.take(n)
	if n > 0 {
		p.clear()
	}
	p.limits, p.describe = limits{payload: f.conn.MaxPayload(), message: int64(e.info.Config.MaxMsgSize)}, false
	p.mu.Unlock()
	if why != nil {
		p.end(why)
		f.unsettled, f.failed = false, nil
		return
	}
	f.acknowledge(stored)
	p.mu.Lock()
	p.queue.again()
	p.mu.Unlock()
	failed := f.failed
	f.failed = nil
	switch {
	case failed == nil || n > 0 && code(failed) == 0:
		f.unsettled = false // the first question, a lost answer, or the consequence of either
	case p.tooLarge():
		p.end(fmt.Errorf("%w: a message is larger than it may be", sink.ErrSessionOver))
		f.unsettled = false
	case follows(failed):
		f.notBefore = time.Now().Add(f.wait.NextBackOff())
	default:
		f.later(p.publishTrouble(e, failed))
	}
}

// follows reports whether a message was refused because its predecessor is not there. If that is the first message,
// its place was another's for a moment, or the server was not up to date.
func follows(err error) bool {
	c := code(err)
	return c == wrongLastID || c == wrongLastSeq || c == wrongConstant
}

// later notes a trouble. The next question comes after a pause.
func (f *flow) later(t sink.Trouble) {
	f.p.report(t)
	f.unsettled = true
	f.notBefore = time.Now().Add(f.wait.NextBackOff())
}

// judge counts the records at the begin of the queue that the stream has, or returns why the session is over.
func (p *Producer) judge(e *end) (int, error) {
	last := e.info.State.LastSeq
	switch {
	case !p.goesOn():
		return 0, nil
	case !e.info.Created.Equal(p.created) || last < p.queue.base:
		return 0, fmt.Errorf("%w: stream %q is another than before: it was made again, or put back to an older state",
			sink.ErrSessionOver, p.cfg.Stream)
	case last == p.queue.base:
		return 0, nil
	}
	n := last - p.queue.base
	if n <= uint64(p.queue.tried) && e.last != nil && p.queue.messages[n-1].is(e.last) {
		return int(n), nil
	}
	return 0, p.anotherWriter(e.last)
}

// is reports whether the message of the stream is this one.
func (m *message) is(stored *jetstream.RawStreamMsg) bool {
	return stored.Header.Get(headerPosition) == m.msg.Header.Get(headerPosition) &&
		stored.Header.Get(headerRelay) == m.msg.Header.Get(headerRelay)
}

// anotherWriter is for a message at the end of the stream that this session has not written.
func (p *Producer) anotherWriter(m *jetstream.RawStreamMsg) error {
	if m == nil {
		return fmt.Errorf("%w: the last message of stream %q was removed, and whose it was is not known",
			sink.ErrSessionOver, p.cfg.Stream)
	}
	if relay := m.Header.Get(headerRelay); relay != "" {
		return fmt.Errorf("%w: message %d of stream %q is of %s", sink.ErrFenced, m.Sequence, p.cfg.Stream, relay)
	}
	p.log.Warn("something else writes into the stream of the outbox; each of its messages costs a new session",
		zap.String(logkey.Stream, p.cfg.Stream), zap.String(logkey.Topic, m.Subject),
		zap.Uint64(logkey.Sequence, m.Sequence),
		zap.String(logkey.Next, "Give the other writer another stream: this one is the connector's alone."))
	return fmt.Errorf("%w: message %d of stream %q is not the connector's", sink.ErrSessionOver, m.Sequence,
		p.cfg.Stream)
}

// tooLarge reports whether the first record is larger than server or stream take now.
func (p *Producer) tooLarge() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue.messages) > 0 && p.limits.exceeded(p.queue.messages[0].length) != ""
}
