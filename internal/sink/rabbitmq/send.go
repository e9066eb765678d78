package rabbitmq

import (
	"context"
	"errors"
	"time"
)

// send publishes what the lanes have, until ctx ends.
func (f *flow) send(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		more, err := f.sendSome()
		if err != nil {
			f.failed <- err
			return
		}
		if more {
			if ctx.Err() != nil {
				return
			}
			continue
		}
		wait := time.Minute
		if due := f.p.queue.Due(); !due.IsZero() {
			wait = max(time.Until(due), time.Millisecond)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-f.resumed:
		case <-f.p.queue.Wake():
		case <-timer.C:
		}
	}
}

// sendSome publishes some messages, and reports whether there may be more.
func (f *flow) sendSome() (more bool, err error) {
	if f.alarm.Load() {
		return false, nil
	}
	f.raw.hold()
	defer func() { err = errors.Join(err, f.raw.release()) }()
	var buf [1]*message
	for range burst {
		if !f.hasRoom() {
			return false, nil // an answer wakes the sender
		}
		b, messages, ok := f.p.queue.Next(buf[:0])
		if !ok {
			return false, nil
		}
		m := messages[0]
		if !f.there(m) {
			f.p.queue.Settle(b, 0)
			continue
		}
		if err := f.publishers[b.Lane%channels].publish(b, m); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (f *flow) hasRoom() bool {
	for _, pub := range f.publishers {
		if !pub.hasRoom() {
			return false
		}
	}
	return true
}

// there reports whether the exchange exists: to publish to one that does not closes the channel, with all that is in
// flight on it.
func (f *flow) there(m *message) bool {
	again, known := f.missing[m.exchange]
	if known && (again.IsZero() || time.Now().Before(again)) {
		return again.IsZero()
	}
	if len(f.missing) > 10_000 {
		clear(f.missing)
	}
	if f.raw.release() != nil {
		return false
	}
	err := f.exists(m.exchange)
	f.raw.hold()
	if err == nil {
		f.missing[m.exchange] = time.Time{}
		f.p.fine(exchangeObject(m.exchange))
		return true
	}
	f.p.report(exchangeTrouble(m.exchange, f.cluster, err))
	f.missing[m.exchange] = time.Now().Add(firstWait)
	return false
}
