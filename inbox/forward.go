package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotSent is what the call of Forward wraps when it knows that the other system has done nothing: a refused connection, or an
// answer that says so.
var ErrNotSent = errors.New("inbox: the call had no effect")

// Forward passes an event on to a system that can't recognise a repeat, a plain HTTP call: call runs only if the claim was new.
//
// It is at most once, by intent, and not exactly once; no inbox can make that of a system which can't take part in the transaction. The claim is
// committed as PROCESSING, then comes the call, then COMPLETED. What can happen in between:
//
//   - call returns an error that wraps ErrNotSent: the claim is given back, the next delivery calls again.
//   - call returns another error (a timeout, a 500): the other system may have acted or not. The row stays PROCESSING, and Forward returns
//     ErrUnfinished with the error's text, and so does each delivery that comes later than twice the limit (ErrContended before). Dead-letter it,
//     and have a person, or a job that asks the other system, decide.
//   - The process dies or loses the database between claim and COMPLETED: the same, except that nobody has been told yet.
//   - COMPLETED means that call returned nil, nothing more.
//
// call's context ends after limit. Where the other system takes an idempotency key, give it the event's id and use
// Handle instead: an effect may then come twice and is recognised there.
func (in *Inbox) Forward(ctx context.Context, e Event, limit time.Duration, call func(ctx context.Context) error) error {
	return in.run(ctx, e, func() error { return in.forward(ctx, in, e, limit, call) })
}

// Forward is Inbox.Forward.
func (in *SQL) Forward(ctx context.Context, e Event, limit time.Duration, call func(ctx context.Context) error) error {
	return in.run(ctx, e, func() error { return in.forward(ctx, in, e, limit, call) })
}

func (l *ledger) forward(ctx context.Context, t transactor, e Event, limit time.Duration, call func(ctx context.Context) error) error {
	if limit <= 0 {
		return errors.New("inbox: Forward needs a limit for the call")
	}
	if err := t.inSession(ctx, func(s session) error { return l.reserve(ctx, s, e, limit) }); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	err := call(limited)
	cancel()
	// What happened is written down also when ctx has ended.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	if errors.Is(err, ErrNotSent) {
		return errors.Join(err, t.inSession(after, func(s session) error {
			_, err := s.exec(after, l.release, l.opts.Consumer, e.ID)
			return err
		}))
	}
	if err != nil {
		return unfinished{err}
	}
	if err := t.inSession(after, func(s session) error {
		_, err := s.exec(after, l.complete, l.opts.Consumer, e.ID)
		return err
	}); err != nil {
		return unfinished{fmt.Errorf("inbox: the call succeeded, but it couldn't be written down: %w", err)}
	}
	return nil
}

// reserve claims the event for a call. A claim younger than twice the limit may belong to a call that is still under way.
func (l *ledger) reserve(ctx context.Context, s session, e Event, limit time.Duration) error {
	inserted, err := s.exec(ctx, l.insert, l.opts.Consumer, e.ID, "PROCESSING", e.source())
	if err != nil {
		return fmt.Errorf("inbox: claim the event: %w", err)
	}
	if inserted == 1 {
		return nil
	}
	state, err := l.look(ctx, s, e, 2*limit)
	switch {
	case err != nil:
		return err
	case state == "completed":
		return ErrDuplicate
	case state == "fresh":
		return ErrContended
	}
	return ErrUnfinished
}

// unfinished hides the cause's SQLSTATE from run: after the call nothing may be repeated.
type unfinished struct{ cause error }

func (u unfinished) Error() string { return ErrUnfinished.Error() + ": " + u.cause.Error() }

func (u unfinished) Is(target error) bool {
	return target == ErrUnfinished || errors.Is(u.cause, target)
}
