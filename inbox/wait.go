package inbox

import (
	"context"
	"fmt"
	"time"
)

const (
	firstLook = 5 * time.Millisecond
	lastLook  = 100 * time.Millisecond
)

// Wait returns nil as soon as this consumer has handled each of the events, by its ledger: their effects are committed.
// A page that shows what another service has done with an event, and a test, need no sleep.
//
// An event that became a dead letter, or is not delivered, is never handled, so ctx should have a deadline; the
// error then says how many events are handled. An error of the database is returned at once. The ledger forgets by
// Prune.
func (in *Inbox) Wait(ctx context.Context, ids ...string) error { return in.waitWith(ctx, in, ids) }

// Wait is Inbox.Wait.
func (in *SQL) Wait(ctx context.Context, ids ...string) error { return in.waitWith(ctx, in, ids) }

func (l *ledger) waitWith(ctx context.Context, t transactor, ids []string) error {
	distinct := make(map[string]bool, len(ids))
	var array textArray
	for _, id := range ids {
		if err := (Event{ID: id}).validate(); err != nil {
			return err
		}
		if !distinct[id] {
			distinct[id] = true
			array.add(id)
		}
	}
	handled := 0
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		now := 0
		err := t.inSession(ctx, func(s session) error {
			return s.scan(ctx, &now, l.handled, l.opts.Consumer, array.String())
		})
		switch {
		case err == nil && now == len(distinct):
			return nil
		case err == nil:
			handled = now
		case ctx.Err() == nil:
			return ofLedger(fmt.Errorf("inbox: count the events that are handled: %w", err))
		}
		if !sleep(ctx, pause) {
			return fmt.Errorf("inbox: %s has handled %d of %d events: %w", l.opts.Consumer, handled, len(distinct),
				context.Cause(ctx))
		}
	}
}
