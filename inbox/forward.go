package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// ErrNotSent is the error that the call of Forward wraps if it knows that the other system has done nothing: the
// connection was refused, or the answer says so.
var ErrNotSent = errors.New("inbox: the call had no effect")

// Forward passes an event on to a system that cannot recognize a repeat, for example by a plain HTTP call. It runs call
// only if the claim is new.
//
// Delivery is at most once on purpose, not exactly once: no inbox can achieve exactly once with a system that does not
// take part in the transaction. Forward commits the claim as PROCESSING, runs call, and then commits COMPLETED. These
// outcomes are possible:
//
//   - call returns an error that wraps ErrNotSent: the claim is released, and the next delivery runs call again.
//   - call returns another error (a timeout, a 500): the other system may have acted or not. The row stays PROCESSING,
//     and Forward returns ErrUnfinished with the text of the error. Later deliveries return ErrContended, and after
//     twice the limit ErrUnfinished. Dead-letter the event and let an operator decide, or a job that asks the other
//     system.
//   - The process dies or loses the database between the claim and COMPLETED: the same, but no error has been reported
//     yet.
//   - The row is COMPLETED: call returned nil, nothing more.
//
// The context of call ends after limit, which begins before the claim. If the other system accepts an idempotency key,
// give it the event's id and use Handle instead. The call may then be made twice, and the other system recognizes the
// repeat.
func (in *Inbox) Forward(
	ctx context.Context, e Event, limit time.Duration, call func(ctx context.Context) error,
) error {
	return in.run(ctx, e, func() error { return in.forward(ctx, in, e, limit, call) })
}

// Forward is Inbox.Forward.
func (in *SQL) Forward(ctx context.Context, e Event, limit time.Duration, call func(ctx context.Context) error) error {
	return in.run(ctx, e, func() error { return in.forward(ctx, in, e, limit, call) })
}

func (l *ledger) forward(
	ctx context.Context, t transactor, e Event, limit time.Duration, call func(ctx context.Context) error,
) error {
	if limit <= 0 {
		return errors.New("inbox: Forward needs a limit for the call")
	}
	began := time.Now() // the limit includes the claim: of a claim that is older, no call may begin
	var claim string
	if err := t.inSession(ctx, func(s session) (err error) {
		claim, err = l.claimForCall(ctx, s, e, limit)
		return err
	}); err != nil {
		return err
	}
	limited, cancel := context.WithDeadline(ctx, began.Add(limit))
	defer cancel()
	err := fmt.Errorf("%w: the claim took longer than the limit", ErrNotSent)
	if time.Since(began) < limit {
		err = call(limited)
	}
	// The outcome is recorded even if ctx has ended.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	if errors.Is(err, ErrNotSent) {
		return errors.Join(err, t.inSession(after, func(s session) error {
			_, err := s.exec(after, l.release, l.opts.Consumer, e.ID, claim)
			return err
		}))
	}
	if err != nil {
		return unfinished{err}
	}
	if err := t.inSession(after, func(s session) error { return l.completeCall(after, s, e, claim) }); err != nil {
		return unfinished{fmt.Errorf("inbox: the call succeeded, but the ledger could not record it: %w", err)}
	}
	return nil
}

// claimForCall claims the event for a call. A claim younger than twice the limit may belong to a call that is still
// running.
func (l *ledger) claimForCall(ctx context.Context, s session, e Event, limit time.Duration) (claim string, err error) {
	err = s.scan(ctx, &claim, l.reserve, l.opts.Consumer, e.ID, "PROCESSING", e.source(), nil)
	switch {
	case err == nil:
		return claim, nil
	case !errors.Is(err, sql.ErrNoRows):
		return "", ofLedger(fmt.Errorf("inbox: claim the event: %w", err))
	}
	state, err := l.readState(ctx, s, e, 2*limit)
	switch {
	case err != nil:
		return "", err
	case state == "completed":
		return "", ErrDuplicate
	case state == "fresh":
		return "", ErrContended
	}
	return "", ErrUnfinished
}

// completeCall marks the claim as completed. A row that was deleted meanwhile, or claimed again, stays as it is.
func (l *ledger) completeCall(ctx context.Context, s session, e Event, claim string) error {
	updated, err := s.exec(ctx, l.confirm, l.opts.Consumer, e.ID, claim)
	if err == nil && updated != 1 {
		return errors.New("its claim was deleted or changed during the call")
	}
	return err
}

// unfinished hides the SQLSTATE of the cause from run, because nothing may be repeated after the call.
type unfinished struct{ cause error }

func (u unfinished) Error() string { return ErrUnfinished.Error() + ": " + u.cause.Error() }

func (u unfinished) Is(target error) bool {
	return target == ErrUnfinished || target != ErrLedger && errors.Is(u.cause, target) // the call may have been made
}
