package kafka

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// broker is a broker that leads, or led, a partition in use. One goroutine, serve, owns its connection; the other
// fields are guarded by the producer's lock.
type broker struct {
	id     int32
	addr   string
	cancel context.CancelCauseFunc // ends serve
	wanted chan struct{}           // capacity 1: there is something to send and no connection

	conn     *conn      // nil while there is none
	inflight []*request // unanswered, oldest first

	ready      readyList // partitions with something to send
	readyBytes int       // their pending bytes

	attempt        int       // connection failures since the last answer
	throttled      bool      // the broker asked for a pause
	throttledUntil time.Time // when that is, or was, over
	cutAt          time.Time // zero, or when to stop waiting for answers about partitions that moved away

	trouble trouble
}

// refresh brings the partition's place in its broker's ready list in line with its state. Call it after each change
// of state, queue, leader or back-off.
func (part *partition) refresh() {
	want := part.sendable()
	if want == part.isReady {
		return
	}
	if !want {
		part.unready()
		return
	}
	b := part.broker
	b.ready.add(part)
	b.count(part)
	b.wantConnection()
}

// count brings readyBytes in line with the pending bytes of a ready partition.
func (b *broker) count(part *partition) {
	b.readyBytes += part.pending - part.counted
	part.counted = part.pending
}

// unready takes the partition out of its broker's ready list.
func (part *partition) unready() {
	if !part.isReady {
		return
	}
	b := part.broker
	b.ready.remove(part)
	b.readyBytes -= part.counted
	part.counted = 0
}

// wantConnection asks serve for a connection.
func (b *broker) wantConnection() {
	if b.conn != nil {
		return
	}
	select {
	case b.wanted <- struct{}{}:
	default:
	}
}

// serve keeps the broker's connection: it dials when there is something to send, runs the connection, and when
// that ends resolves the batches that were in flight. It returns when ctx ends.
func (p *Producer) serve(ctx context.Context, b *broker) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wanted:
		}
		ended := p.session(ctx, b)
		p.mu.Lock()
		delay := p.cfg.pace.delay(b.attempt)
		b.attempt++
		p.mu.Unlock()
		if !wire.SleepUntil(ctx, ended.Add(delay)) {
			return
		}
	}
}

// throttle keeps quiet for as long as the broker asks for it. From version 6 on it answers at once and does not read
// from the connection meanwhile (KIP-219): unsent batches can still go to the same request as newer records. Older
// versions answer when the pause is over.
func (p *Producer) throttle(b *broker, version int16, d time.Duration) {
	if d <= 0 {
		return
	}
	p.metrics.throttled.Add(d.Seconds())
	if version >= 6 {
		b.throttled, b.throttledUntil = true, later(min(d, p.cfg.RequestTimeout))
		p.clock.wake()
	}
}

// session dials and runs one connection, and returns the time it ended.
func (p *Producer) session(ctx context.Context, b *broker) time.Time {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	w, err := wire.Dial(ctx, &p.cfg.Cluster, b.addr)
	var c *conn
	if err == nil {
		if c, err = newConn(w, &p.cfg); err != nil {
			_ = w.Close()
		}
	}
	if err != nil {
		p.unreachable(ctx, b, err)
		return time.Now()
	}
	c.cut = cut
	p.connected(b, c)
	err = c.run(ctx, p.responder(b))
	p.disconnected(ctx, b, err)
	return time.Now()
}

func (p *Producer) connected(b *broker, c *conn) {
	p.log.Info("connected to broker", zap.String(logkey.Broker, b.addr), zap.Int32(logkey.Node, b.id))
	p.mu.Lock()
	defer p.mu.Unlock()
	b.conn = c
	b.trouble.resolve(&p.troubles)
	if p.control.trouble.Kind != "" {
		p.control.wantMetadata() // where one broker answers, the control connection need not wait out its back-off
	}
	p.pump(b)
}

func (p *Producer) unreachable(ctx context.Context, b *broker, err error) {
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reportDial(&b.trouble, "broker "+b.addr, err).Passes() {
		b.attempt = refusedAttempt
	}
	p.control.wantMetadata()
	if b.ready.first != nil {
		b.wantConnection()
	}
}

// disconnected resolves every request in flight as "maybe appended": all of their partitions rewind.
func (p *Producer) disconnected(ctx context.Context, b *broker, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := b.conn
	b.conn = nil
	b.cutAt = time.Time{}
	lost := slices.DeleteFunc(b.inflight, func(r *request) bool { return r.generation != p.generation })
	b.inflight = nil
	p.flying -= len(lost)
	p.metrics.inFlight.Sub(float64(len(lost)))
	if ctx.Err() == nil || len(lost) > 0 {
		p.log.Info("connection to broker ended", zap.String(logkey.Broker, b.addr), zap.Int32(logkey.Node, b.id),
			zap.Int(logkey.RequestsInFlight, len(lost)), zap.NamedError(logkey.Reason, err))
	}
	var parts []*partition
	for _, r := range lost {
		for _, batch := range r.batches {
			parts = append(parts, batch.part)
			p.resolve(batch, connectionLost)
		}
	}
	if len(lost) > 0 {
		if !errors.Is(err, errRetired) && (c == nil || !c.silence.waits()) {
			p.reportDial(&b.trouble, "broker "+b.addr, err)
		}
		p.control.wantMetadata()
		if p.cfg.Reconnected != nil {
			p.cfg.Reconnected()
		}
	}
	if b.ready.first != nil {
		b.wantConnection()
	}
	p.proceed(b, parts)
}
