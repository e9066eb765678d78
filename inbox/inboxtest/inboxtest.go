// Package inboxtest gives the events of a topic to a handler as a consumer does, with its repeats and its deaths, and
// without Kafka. With a database of the test's own it shows whether the handler has its effect once:
//
//	db := inboxtest.Wrap(pool)
//	in, err := inbox.New(db, inbox.Options{Consumer: "billing"})
//	...
//	db.DieNext(inboxtest.BeforeCommit, inboxtest.AfterCommit)
//	err = inboxtest.Deliver(ctx, consumer.InTx(in, bill), inboxtest.Repeat(seed, events)...)
//	...
//	// the tables of the handler, as if each event had come once
//
// What it finds: effects outside of the handler's transaction, errors that are swallowed, and state that is kept in
// memory between two attempts.
package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/inbox/internal/failure"
)

// attempts is how often an event is given to the handler whose error is the event's own.
const attempts = 3

// pause is the time before an event is given to the handler again that has to wait.
const pause = 5 * time.Millisecond

// Event returns the message of an event as the relay sends it with its default configuration: key is the aggregate's
// id. A nil value is a tombstone.
func Event(id, eventType, key string, value []byte) consumer.Message {
	return consumer.Message{
		ID: id, Type: eventType, Topic: "test.events", Key: []byte(key), Value: value,
		Headers: []consumer.Header{{Key: "id", Value: []byte(id)}, {Key: "type", Value: []byte(eventType)}},
	}
}

// Repeat returns the messages as a partition may have them after relays and consumers have died: now and then the
// latest of them are delivered again, as a whole and in their order, at new offsets. The same seed returns the same.
func Repeat(seed uint64, ms []consumer.Message) []consumer.Message {
	rng := rand.New(rand.NewPCG(seed, 0))
	var out []consumer.Message
	for i := range ms {
		out = append(out, ms[i])
		if last := i == len(ms)-1; last || rng.IntN(3) == 0 {
			out = append(out, ms[rng.IntN(i+1):i+1]...)
		}
	}
	for i := range out {
		out[i].Offset = int64(i)
	}
	return out
}

// DeadLetter is the error of an event that a consumer would write to its dead-letter topic.
type DeadLetter struct {
	Message consumer.Message
	Err     error
}

func (d *DeadLetter) Error() string {
	return fmt.Sprintf("inboxtest: event %q at offset %d becomes a dead letter: %v", d.Message.ID, d.Message.Offset,
		d.Err)
}

// Unwrap returns the handler's last error.
func (d *DeadLetter) Unwrap() error { return d.Err }

// Deliver gives the messages to the handler, one after the other. As in a consumer, a message is done after nil or
// inbox.ErrDuplicate, waits as long as ctx lasts after an error that it is not the cause of, such as inbox.ErrLedger,
// and is tried three times after any other. Then, or at once after an error from consumer.Permanent, it is a dead
// letter: the rest is delivered, and the errors returned are *DeadLetter, joined. A panic of the handler is not caught.
func Deliver(ctx context.Context, handle consumer.Handler, ms ...consumer.Message) error {
	var dead []error
	for _, m := range ms {
		if err := deliver(ctx, handle, m); err != nil {
			if ctx.Err() != nil {
				return err
			}
			dead = append(dead, &DeadLetter{m, err})
		}
	}
	return errors.Join(dead...)
}

func deliver(ctx context.Context, handle consumer.Handler, m consumer.Message) (err error) {
	left := attempts
	for m.Attempt = 1; ctx.Err() == nil; m.Attempt++ {
		switch err = handle(ctx, m); {
		case err == nil || errors.Is(err, inbox.ErrDuplicate):
			return nil
		case failure.IsPermanent(err):
			return err
		case errors.Is(err, inbox.ErrContended), failure.IsUnavailable(err):
		default:
			if left--; left == 0 {
				return err
			}
		}
		wait(ctx)
	}
	return errors.Join(ctx.Err(), err)
}

func wait(ctx context.Context) {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// DeliverBatch gives the messages to the handler of a batch together, size at a time. After an error each of them is
// delivered alone, as Deliver does.
func DeliverBatch(ctx context.Context, handle consumer.BatchHandler, size int, ms ...consumer.Message) error {
	var dead []error
	for batch := range slices.Chunk(ms, size) {
		batch = slices.Clone(batch)
		for i := range batch {
			batch[i].Attempt = 1
		}
		if err := handle(ctx, batch); err == nil || errors.Is(err, inbox.ErrDuplicate) {
			continue
		}
		err := Deliver(ctx, func(ctx context.Context, m consumer.Message) error {
			return handle(ctx, []consumer.Message{m})
		}, batch...)
		if ctx.Err() != nil {
			return err
		}
		dead = append(dead, err)
	}
	return errors.Join(dead...)
}
