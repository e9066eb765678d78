package nats

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	client "github.com/nats-io/nats.go"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

const (
	inFlight  = 4096            // messages without an answer: the server keeps 10,000 of a stream, and drops more
	burst     = 256             // messages that are sent before answers are looked at
	ackWait   = 5 * time.Second // without any answer, the stream is asked
	firstWait = 50 * time.Millisecond
	mostWait  = 2 * time.Second
)

// Run implements sink.Producer.
func (p *Producer) Run(ctx context.Context) error {
	err := p.run(ctx)
	p.mu.Lock()
	p.ran = err
	if err == nil {
		p.ran = sink.ErrStopped
	}
	p.announce()
	p.mu.Unlock()
	return err
}

func (p *Producer) run(ctx context.Context) error {
	wait := newBackoff()
	for again := false; ctx.Err() == nil; {
		conn, closed, err := p.dial(ctx)
		if err != nil {
			p.report(connectTrouble(p.cfg.Servers, err))
			pause(ctx, wait.NextBackOff())
			continue
		}
		if again && p.cfg.Reconnected != nil {
			p.cfg.Reconnected()
		}
		again = true
		wait.Reset()
		err = (&flow{p: p, conn: conn, wait: newBackoff()}).serve(ctx, closed)
		p.disconnected(err)
		conn.Close()
	}
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

// flow is the sending over one connection.
type flow struct {
	p     *Producer
	conn  *connection
	inbox string // answers come to inbox and the number of the record
	wait  *backoff.ExponentialBackOff

	unsettled bool      // nothing is sent until the end of the stream is known
	failed    error     // why a record was not stored, the first of them; nil: none
	notBefore time.Time // of the next settling
	heard     time.Time // of an answer, or of a message after a lull
}

// serve sends until the connection is closed or ctx ends.
func (f *flow) serve(ctx context.Context, closed <-chan struct{}) error {
	f.inbox = client.NewInbox() + "."
	answers := make(chan *client.Msg, 2*inFlight) // the library drops what does not fit
	if _, err := f.conn.ChanSubscribe(f.inbox+"*", answers); err != nil {
		return err
	}
	f.unsettled = true
	f.p.connected(f.conn)
	clock := time.NewTimer(0)
	defer clock.Stop()
	for {
		f.renew()
		if f.asks() && f.answered() && !time.Now().Before(f.notBefore) {
			f.settle(ctx)
		}
		more := f.send()
		clock.Reset(f.look())
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			return f.conn.LastError()
		case m := <-answers:
			f.answer(m)
			for len(answers) > 0 {
				f.answer(<-answers)
			}
			f.deliver()
		case <-f.p.wake:
		case <-more:
		case <-clock.C:
		}
	}
}

// renew forgets the doubts about records of an earlier session.
func (f *flow) renew() {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	if f.p.fresh {
		f.p.fresh = false
		f.unsettled, f.failed, f.notBefore = false, nil, time.Time{}
		f.wait.Reset()
	}
}

// now is ready at once.
var now = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// answered reports whether no answer is to come any more, or not for a long time.
func (f *flow) answered() bool {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	return f.p.queue.awaited == 0 || time.Since(f.heard) >= ackWait
}

// asks reports whether there is a reason to ask for the end of the stream.
func (f *flow) asks() bool {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	return f.p.describe || f.unsettled && len(f.p.queue.messages) > 0
}

// look is when to look again although nothing has happened.
func (f *flow) look() time.Duration {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	switch {
	case f.p.queue.awaited > 0:
		return max(ackWait-time.Since(f.heard), 0)
	case f.p.describe, f.unsettled && len(f.p.queue.messages) > 0:
		return max(time.Until(f.notBefore), 0)
	}
	return time.Minute
}

// overdue reports whether answers are missing.
func (f *flow) overdue() bool {
	return !f.unsettled && f.p.queue.awaited > 0 && time.Since(f.heard) >= ackWait
}

var errSilent = errors.New("no answer within " + ackWait.String())
