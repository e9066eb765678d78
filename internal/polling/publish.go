package polling

import (
	"context"
	"errors"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
	"github.com/cdc-outbox/cdc-outbox/router"
)

const (
	// feedWait bounds the waits within one call of feed: for partitions of a topic that is not known.
	feedWait = time.Second
	// roomWait is how long a row waits for room in the window at a time.
	roomWait = 10 * time.Millisecond
)

// publish takes a row to the producer, or to where the policy says. taken is false where it has to be tried again. No
// position comes with it: a table does not tell in which order its rows were committed.
func (w *worker) publish(ctx, limited context.Context, s *source, i int) (taken bool, err error) {
	rec, err := w.router.Route(w.batch.relation, w.batch.tuple(i), router.Source{CommitTime: time.Now()})
	if err != nil {
		return w.badRow(ctx, limited, s, i, err)
	}
	err = w.offer(limited, rec, i)
	var refused *kafka.RefusedError
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &refused):
		return w.notTaken(ctx, limited, s, i, rec, refused)
	}
	return false, w.later(ctx, limited, err)
}

// errNoRoom is a window that stayed full.
var errNoRoom = errors.New("no room in the window")

// offer hands a record over with the row's ticket.
func (w *worker) offer(limited context.Context, rec *router.Record, i int) error {
	size := rec.Size()
	if !w.r.window.TryAcquire(size) {
		w.r.producer.Flush() // what fills the window may lie in batches that wait for more
		room, cancel := context.WithTimeout(limited, roomWait)
		err := w.r.window.Acquire(room, size)
		cancel()
		if err != nil {
			return errNoRoom
		}
	}
	w.batch.rows[i].at = rec.Timestamp
	w.batch.fly(i)
	err := w.r.producer.Produce(limited, rec, w.ticket|uint64(i))
	if err != nil {
		w.batch.land(i)
		w.r.window.Release(1, int64(size))
	}
	return err
}

// later tells what passes with time from what does not.
func (w *worker) later(ctx, limited context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errNoRoom) || limited.Err() != nil {
		return nil
	}
	return err
}
