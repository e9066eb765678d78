package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

const (
	burst     = 64                     // messages that are written at once
	lookEvery = 250 * time.Millisecond // at answers that the client holds back, and at what lasts
	firstWait = 50 * time.Millisecond
	mostWait  = 2 * time.Second
	interrupt = 10 * time.Second // without a connection another instance may have had a turn
	slow      = 10 * time.Second // without an answer
)

// Run implements sink.Producer.
func (p *Producer) Run(ctx context.Context) error {
	wait := newBackoff()
	var heard time.Time // on the connection before
	for number := 1; ctx.Err() == nil; number++ {
		owner, tenure, turn := p.wanted()
		if owner == "" {
			heard = time.Time{}
			select {
			case <-turn:
			case <-ctx.Done():
			}
			continue
		}
		began := time.Now()
		err := p.serve(ctx, owner, tenure, number, &heard)
		switch {
		case ctx.Err() != nil, errors.Is(err, errGivenUp):
			continue
		case err != nil:
			p.report(connectTrouble(&p.cfg.Cluster, owner, err))
		}
		if time.Since(began) > mostWait {
			wait.Reset()
		}
		pause(ctx, wait.NextBackOff())
	}
	p.mu.Lock()
	p.ran = sink.ErrStopped
	p.change()
	p.mu.Unlock()
	p.queue.Stop(nil)
	return nil
}

func newBackoff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = firstWait, mostWait
	return b
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// wanted is who wants to publish, and a channel that is closed when that may have changed.
func (p *Producer) wanted() (owner string, tenure int, turn <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owner, p.tenure, p.turn
}

var errGivenUp = errors.New("the session was given up")

// flow is the sending over one connection.
type flow struct {
	p *Producer
	*link
	alarm   atomic.Bool // the server reads nothing
	resumed chan struct{}
	failed  chan error
	missing map[string]time.Time // exchanges, and when to ask again; zero: it exists
}

// serve sends over one connection until it is closed, the session is given up, or ctx ends.
func (p *Producer) serve(ctx context.Context, owner string, tenure, number int, heard *time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := p.cfg.connect(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	if err := p.acquire(ctx, l, owner, tenure); err != nil {
		return err
	}
	if err := l.open(); err != nil {
		return err
	}
	if !heard.IsZero() && time.Since(*heard) > interrupt {
		p.end(fmt.Errorf("%w: no connection to RabbitMQ for %s, in which another instance may have had a turn",
			sink.ErrSessionOver, time.Since(*heard).Round(time.Second)))
	}
	if !p.connect(l, tenure, number) {
		return errGivenUp
	}
	f := &flow{
		p: p, link: l, resumed: make(chan struct{}, 1), failed: make(chan error, channels+1),
		missing: map[string]time.Time{},
	}
	var g errgroup.Group
	for _, pub := range l.publishers {
		g.Go(func() error { f.receive(pub); return nil })
	}
	stop, stopped := context.WithCancel(ctx)
	g.Go(func() error { f.send(stop); return nil })
	err = f.watch(ctx, tenure)
	*heard = time.Unix(0, l.raw.heard.Load())
	p.disconnect(l)
	stopped()
	l.close()
	_ = g.Wait()
	p.queue.Deliver()
	p.queue.Again()
	return err
}

// acquire takes the queue of the owner, which an earlier connection of it may still have.
func (p *Producer) acquire(ctx context.Context, l *link, owner string, tenure int) error {
	for wait := newBackoff(); p.cfg.Lock; {
		err := l.take(owner)
		if !isCode(err, amqp.ResourceLocked) {
			return err
		}
		p.report(lockTrouble(owner))
		pause(ctx, wait.NextBackOff())
		if _, now, _ := p.wanted(); now != tenure || ctx.Err() != nil {
			return errGivenUp
		}
	}
	return nil
}

// connect lets calls use the connection, unless the tenure has ended.
func (p *Producer) connect(l *link, tenure, number int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tenure != tenure {
		return false
	}
	again := p.number > 0
	p.current, p.number, p.limits.frame = l, number, l.frame()
	p.usableAgain()
	p.change()
	if again && p.cfg.Reconnected != nil {
		p.cfg.Reconnected()
	}
	return true
}

// disconnect takes the connection from the calls that use it.
func (p *Producer) disconnect(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == l {
		p.current = nil
	}
	p.alarm = ""
}

// watch delivers, until something ends the connection.
func (f *flow) watch(ctx context.Context, tenure int) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		f.p.queue.Deliver()
		_, now, turn := f.p.wanted()
		if now != tenure {
			return errGivenUp
		}
		select {
		case <-ctx.Done():
			return nil
		case <-turn:
		case err, ok := <-f.closed:
			if !ok || err == nil {
				return errClosed
			}
			return err
		case err := <-f.failed:
			return err
		case b, ok := <-f.blocks:
			if ok {
				f.block(b)
			}
		case <-f.p.queue.Settled():
		case <-tick.C:
			if err := f.look(); err != nil {
				return err
			}
		}
	}
}

var (
	errClosed = errors.New("the connection is closed")
	errStuck  = errors.New("the server does not confirm a message, and confirms many later ones")
)

// block takes the server's word about an alarm: until it is over, the server reads nothing that is published.
func (f *flow) block(b amqp.Blocking) {
	f.alarm.Store(b.Active)
	f.p.mu.Lock()
	f.p.alarm = ""
	f.p.mu.Unlock()
	if b.Active {
		f.p.mu.Lock()
		f.p.alarm = b.Reason
		f.p.mu.Unlock()
		f.p.report(alarmTrouble(b.Reason))
		return
	}
	f.p.fine(alarmObject)
	select {
	case f.resumed <- struct{}{}:
	default:
	}
}

// look finds answers that the client holds back, and says what lasts.
func (f *flow) look() error {
	for _, pub := range f.publishers {
		at, stuck := pub.oldest()
		switch {
		case at.IsZero():
			continue
		case stuck:
			return errStuck
		case time.Since(at) > slow && !f.alarm.Load():
			f.p.report(slowTrouble())
		}
		f.settle(pub.overtook(nil))
	}
	return nil
}
