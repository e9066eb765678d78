package polling

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
)

const (
	// renewEvery is how often a claim is renewed while Kafka takes its time: no transaction gets older, the rows
	// acknowledged are marked meanwhile, and a lost connection is noticed. The server ends a session that misses it
	// for the time called frozen.
	renewEvery = 3 * time.Second
	// feedAgain is how soon a row is tried again for which there was no room, or no topic.
	feedAgain = 10 * time.Millisecond
)

// deliver hands the batch to the producer and waits until everything that was handed over is acknowledged. It returns
// an error only when the process cannot go on or ends.
func (w *worker) deliver(ctx context.Context, s *source) error {
	renew := time.NewTimer(renewEvery)
	defer renew.Stop()
	stopping := w.r.stopping
	b := w.batch
	for {
		if err := w.feed(ctx, s); err != nil {
			return err
		}
		var again <-chan time.Time
		if b.next < len(b.rows) {
			again = time.After(feedAgain)
		} else if b.inFlight() == 0 {
			return nil
		}
		select {
		case <-b.changed:
		case <-again:
		case <-stopping:
			stopping = nil
			b.leaveLanes(nil) // rows with the producer are waited for, and no more go there
		case <-renew.C:
			if err := w.renew(ctx, s); err != nil {
				return err
			}
			renew.Reset(renewEvery)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// feed hands over rows until one has to wait.
func (w *worker) feed(ctx context.Context, s *source) error {
	b := w.batch
	if b.next == len(b.rows) {
		return nil
	}
	defer w.r.producer.Flush()
	limited, cancel := context.WithTimeout(ctx, feedWait)
	defer cancel()
	for ; b.next < len(b.rows); b.next++ {
		if b.state(b.next) != waiting {
			continue
		}
		if w.r.paused.Load() != nil {
			b.leaveLanes(nil)
			continue
		}
		taken, err := w.publish(attempt{ctx: ctx, limit: limited, source: s, row: b.next})
		if b.held(!taken); err != nil || !taken {
			return err
		}
	}
	b.held(false)
	return nil
}

// renew makes the claim again. Lanes that another process has taken, because the session had ended, belong to that
// process: their rows handed over are waited for and marked, the rest is not touched.
func (w *worker) renew(ctx context.Context, s *source) error {
	indexes, want := w.batch.marks(), w.batch.open()
	sql := ""
	if len(indexes) > 0 {
		sql = s.mark(w.batch.rows, indexes)
	}
	got, err := w.conn.renew(ctx, s.statements, sql, want)
	switch {
	case err == nil:
	case fault.KindOf(err) != fault.Retry || ctx.Err() != nil:
		return err
	default:
		w.r.postgresFailed(err)
		return nil
	}
	w.r.postgresAnswered()
	w.batch.markedAll(indexes)
	if len(got) < len(want) {
		w.batch.leaveLanes(got)
		w.r.log.Info("lanes were claimed by another process while this one waited for Kafka; what is in flight of "+
			"them may be published twice",
			zap.Int(logkey.Lanes, len(want)-len(got)), zap.String(logkey.Table, s.table.String()))
	}
	return nil
}
