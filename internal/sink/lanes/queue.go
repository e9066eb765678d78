package lanes

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
)

// Limits bound a Queue. A record that is larger than Bytes is taken alone.
type Limits struct {
	Lanes   int
	Batch   int // records of a batch
	Records int
	Bytes   int64
}

var errNotBegun = errors.New("the session with the broker has not begun")

// Queue holds the records of a session between a source and the goroutines of a sender. Any goroutine may call it, but
// Deliver is one goroutine's.
//
// The sender takes batches from Next when Wake says that there may be some, and answers each by Settle, in any order
// and from any goroutine, or all by Again. It calls Deliver when Settled says that there is something.
type Queue[M any] struct {
	calls  sink.Callbacks
	bounds Limits
	wake   chan struct{} // capacity 1
	ready  chan struct{} // capacity 1

	mu      sync.Mutex
	changed chan struct{} // closed, and made again, at each change that a waiting call may wait for
	state   *State[M]
	begun   bool
	over    error // why the session is over; nil: it goes on
	ran     error // why the sender has stopped
	calling bool  // Acked is being called

	delivered []Record[M] // of Deliver
	tickets   []uint64
	tags      []sink.Tag
}

// NewQueue makes a queue that calls back.
func NewQueue[M any](l Limits, c sink.Callbacks) *Queue[M] {
	return &Queue[M]{
		calls: c, bounds: l, wake: make(chan struct{}, 1), ready: make(chan struct{}, 1),
		changed: make(chan struct{}), state: NewState[M](l.Lanes, l.Batch),
	}
}

// Begin opens a session.
func (q *Queue[M]) Begin() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.begun, q.over = true, nil
	q.announce()
}

// usable is nil while records can be taken.
func (q *Queue[M]) usable() error {
	switch {
	case q.ran != nil:
		return q.ran
	case q.over != nil:
		return q.over
	case !q.begun:
		return errNotBegun
	}
	return nil
}

// Usable is nil while records can be taken, otherwise the error of Add.
func (q *Queue[M]) Usable() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.usable()
}

// Add takes a record of the key, nil for none. It waits for room.
func (q *Queue[M]) Add(ctx context.Context, key []byte, r Record[M]) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		q.mu.Lock()
		if err := q.usable(); err != nil {
			q.mu.Unlock()
			return err
		}
		if q.hasRoom(r.Size) {
			q.state.Add(q.state.Lane(key), r)
			q.mu.Unlock()
			signal(q.wake)
			return nil
		}
		changed := q.changed
		q.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (q *Queue[M]) hasRoom(size int64) bool {
	return q.state.records == 0 ||
		q.state.records < q.bounds.Records && q.state.bytes+size <= q.bounds.Bytes
}

// Next returns a batch that is to be sent now, with its messages appended to a slice, false for none.
func (q *Queue[M]) Next(into []M) (Batch, []M, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.usable() != nil {
		return Batch{}, into, false
	}
	b, ok := q.state.Next(time.Now())
	if ok {
		into = q.state.Messages(b, into)
	}
	return b, into, ok
}

// Settle takes the answer to a batch: so many of its records are in the log, from its first.
func (q *Queue[M]) Settle(b Batch, stored int) {
	q.mu.Lock()
	ok := q.state.Settle(b, stored, time.Now())
	q.mu.Unlock()
	if ok {
		signal(q.wake)
		signal(q.ready)
	}
}

// Again has everything sent again that is in flight.
func (q *Queue[M]) Again() {
	q.mu.Lock()
	q.state.Again()
	q.mu.Unlock()
	signal(q.wake)
}

// Wake is ready when there may be something to send.
func (q *Queue[M]) Wake() <-chan struct{} { return q.wake }

// Due is when a pause ends, zero if no lane pauses.
func (q *Queue[M]) Due() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state.Due()
}

// Settled is ready when there may be something to deliver.
func (q *Queue[M]) Settled() <-chan struct{} { return q.ready }

// Deliver calls Acked for what is settled.
func (q *Queue[M]) Deliver() {
	q.mu.Lock()
	q.delivered = q.state.Done(q.delivered[:0])
	q.calling = len(q.delivered) > 0
	q.mu.Unlock()
	rest := q.delivered
	if len(rest) == 0 {
		return
	}
	for len(rest) > 0 {
		same := 1
		for same < len(rest) && rest[same].Topic == rest[0].Topic {
			same++
		}
		q.calls.Acked(q.delivery(rest[:same]))
		rest = rest[same:]
	}
	clear(q.delivered)
	q.mu.Lock()
	q.calling = false
	q.announce()
	q.mu.Unlock()
}

func (q *Queue[M]) delivery(records []Record[M]) sink.Delivery {
	d := sink.Delivery{Topic: records[0].Topic, BaseOffset: -1}
	q.tickets, q.tags = q.tickets[:0], q.tags[:0]
	for i := range records {
		r := &records[i]
		q.tickets = append(q.tickets, r.Ticket)
		d.Bytes += r.Size
		if r.Tag != nil {
			q.tags = append(q.tags, sink.Tag{Record: int32(i), Tag: r.Tag})
		}
	}
	d.Tickets, d.Tags = q.tickets, q.tags
	return d
}

// Abandon ends the session, as sink.Producer says.
func (q *Queue[M]) Abandon() sink.Dropped {
	q.mu.Lock()
	defer q.mu.Unlock()
	var d sink.Dropped
	d.Records, d.Bytes = q.state.Abandon()
	q.begun, q.over = false, nil
	q.announce()
	return d
}

// Drain waits until Acked has returned for every record.
func (q *Queue[M]) Drain(ctx context.Context) error {
	return q.Await(ctx, func() (bool, error) {
		if q.state.records == 0 && len(q.state.done) == 0 && !q.calling {
			return true, nil
		}
		return false, q.usable()
	})
}

// Await returns once done reports so, or with its error. done is called with the lock, after each change.
func (q *Queue[M]) Await(ctx context.Context, done func() (bool, error)) error {
	for {
		q.mu.Lock()
		is, err := done()
		changed := q.changed
		q.mu.Unlock()
		if is || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// End ends the session with ErrSessionOver or ErrFenced, unless it is over. What is not acknowledged stays until
// Abandon.
func (q *Queue[M]) End(why error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.usable() != nil {
		return false
	}
	q.over = why
	q.announce()
	if q.calls.Ended != nil {
		q.calls.Ended(why)
	}
	return true
}

// Stop says that the sender has stopped for good, with its error; nil for none.
func (q *Queue[M]) Stop(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ran = why; why == nil {
		q.ran = sink.ErrStopped
	}
	q.announce()
}

// announce wakes the calls that wait. The caller has the lock.
func (q *Queue[M]) announce() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
