package polling

import (
	"context"
	"errors"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/router"
)

const (
	// feedWait bounds the waits within one call of feed: for partitions of a topic that is not known.
	feedWait = time.Second
	// roomWait is how long a row waits for room in the window at a time.
	roomWait = 10 * time.Millisecond
	// schemaWait is how long a worker waits for a schema registry at a time.
	schemaWait = 250 * time.Millisecond
)

// attempt is one try to hand a row of the batch to the producer.
type attempt struct {
	ctx    context.Context // of the process
	limit  context.Context // bounds the waits of this try
	source *source
	row    int // its index in the batch
}

// later is nil for an error that passes with time: the row is tried again.
func (a attempt) later(err error) error {
	if a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	if !errors.Is(err, errNoRoom) && a.limit.Err() == nil {
		return err
	}
	return nil
}

// publish takes a row to the producer, or applies the policy to it. taken is false if the row has to be tried again. No
// position is sent with it: a table does not show in which order its rows were committed.
func (w *worker) publish(a attempt) (taken bool, err error) {
	rec, err := w.router.Route(w.batch.relation, w.batch.tuple(a.row), router.Source{CommitTime: time.Now()})
	if err != nil {
		if need := relay.Unresolved(w.r.cfg.Schemas, err); need != nil {
			return w.awaitSchema(a, *need)
		}
		return w.applyPolicy(a, err)
	}
	err = w.offer(a, rec)
	var refused *sink.RefusedError
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &refused):
		return w.notTaken(a, rec, refused)
	}
	return false, a.later(err)
}

// awaitSchema waits for the row's schema for a short time. After that its lane is left to a later claim, while the
// other lanes go on: no key is in two of them.
func (w *worker) awaitSchema(a attempt, need router.UnresolvedSchema) (taken bool, err error) {
	w.r.producer.Flush()
	limited, cancel := context.WithTimeout(a.limit, schemaWait)
	defer cancel()
	switch err := w.r.cfg.Schemas.Resolve(limited, need); {
	case err == nil:
		return false, nil // it is routed again
	case a.ctx.Err() != nil:
		return false, a.ctx.Err()
	}
	w.batch.leave(a.row)
	return true, nil
}

// errNoRoom is a window that stayed full.
var errNoRoom = errors.New("no room in the window")

// offer hands a record over with the row's ticket.
func (w *worker) offer(a attempt, rec *router.Record) error {
	size := rec.Size()
	if !w.r.window.TryAcquire(size) {
		w.r.producer.Flush() // the records that fill the window may be in batches that wait for more records
		room, cancel := context.WithTimeout(a.limit, roomWait)
		err := w.r.window.Acquire(room, size)
		cancel()
		if err != nil {
			return errNoRoom
		}
	}
	w.batch.rows[a.row].at = rec.Timestamp
	w.batch.fly(a.row)
	err := w.r.producer.ProduceAt(a.limit, rec, w.ticket|uint64(a.row), sink.Position{})
	if err != nil {
		w.batch.land(a.row)
		w.r.window.Release(1, int64(size))
	}
	return err
}
