package inbox

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const rollbackLimit = 5 * time.Second

// transactor runs the statements of the ledger in a transaction of their own.
type transactor interface {
	inSession(ctx context.Context, do func(s session) error) error
}

// run repeats once, and counts the delivery of the event.
func (l *ledger) run(ctx context.Context, e Event, once func() error) error {
	observed(ctx)
	err := e.validate()
	if err == nil {
		err = l.repeat(ctx, once)
	}
	l.opts.Metrics.count(l.opts.Consumer, err)
	return err
}

// repeat calls once until it returns anything but a conflict that Postgres asks to repeat, or the budget is used up.
func (l *ledger) repeat(ctx context.Context, once func() error) error {
	pause := backoff.ExponentialBackOff{
		InitialInterval: 5 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: time.Second,
	}
	pause.Reset()
	began := time.Now()
	for attempt := 1; ; attempt++ {
		err := once()
		exhausted := attempt >= l.opts.Attempts || time.Since(began) >= l.opts.RetryFor
		if !repeatable(err) || exhausted || !sleep(ctx, pause.NextBackOff()) {
			return err
		}
		l.opts.Metrics.repeated(l.opts.Consumer)
	}
}

// repeatable reports whether Postgres rolled the transaction back because of other transactions and asks to run all of
// it again (docs 13.5).
func repeatable(err error) bool {
	var state interface{ SQLState() string }
	if !errors.As(err, &state) {
		return false
	}
	code := state.SQLState()
	return code == "40001" || code == "40P01"
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (l *ledger) ping(ctx context.Context, t transactor) error {
	return t.inSession(ctx, func(s session) error {
		var one int
		return s.scan(ctx, &one, "SELECT 1")
	})
}
