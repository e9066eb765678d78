package inbox

import (
	"context"
	"fmt"
	"time"
)

const (
	// DefaultKeep is twice Kafka's default retention of a topic (retention.ms, 7 days).
	DefaultKeep = 14 * 24 * time.Hour
	// MinKeep is the minimum that Prune accepts.
	MinKeep = 24 * time.Hour

	pruneBatch = 5000
)

// Prune deletes this consumer's completed rows that were claimed longer than keep ago (0: DefaultKeep), in small
// transactions, and returns their number. Run it daily. Concurrent calls do no harm.
//
// keep must be longer than the time in which an event can still be delivered again. That time is the longest of:
//
//   - the topic's retention plus the consumer's longest lag, because the group's offsets may be reset to the start;
//   - the longest outage of the relay;
//   - the age of the oldest rows that may be published again from the outbox table or from dead letters.
//
// Rows that are PROCESSING stay, because an operator has to decide about them.
func (in *Inbox) Prune(ctx context.Context, keep time.Duration) (int64, error) {
	return in.pruneWith(ctx, in, keep)
}

// Prune is Inbox.Prune.
func (in *SQL) Prune(ctx context.Context, keep time.Duration) (int64, error) {
	return in.pruneWith(ctx, in, keep)
}

func (l *ledger) pruneWith(ctx context.Context, t transactor, keep time.Duration) (deleted int64, err error) {
	if keep == 0 {
		keep = DefaultKeep
	}
	if keep < MinKeep {
		return 0, fmt.Errorf("inbox: Prune would delete rows after %s, but %s is the minimum: an event that is "+
			"delivered again after its row was deleted is handled again", keep, MinKeep)
	}
	defer func() { l.opts.Metrics.prune(l.opts.Consumer, deleted, err == nil) }()
	for {
		var n int64
		err := t.inSession(ctx, func(s session) (err error) {
			n, err = s.exec(ctx, l.prune, l.opts.Consumer, keep.Microseconds(), pruneBatch)
			return err
		})
		if err != nil {
			return deleted, fmt.Errorf("inbox: prune: %w", err)
		}
		if deleted += n; n < pruneBatch {
			return deleted, nil
		}
	}
}
