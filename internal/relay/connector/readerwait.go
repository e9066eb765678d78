package connector

import (
	"context"
	"errors"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// errBroken ends a wait for Kafka with the stream.
var errBroken = errors.New("the stream is broken")

// errFinished says that a graceful stop is complete.
var errFinished = errors.New("finished")

// errPaused ends a batch of the snapshot when an operator pauses the connector.
var errPaused = errors.New("paused")

// awaitStop keeps the reader at a halted row until it is asked to stop, which finishes the stream, or until the stream
// breaks. Nothing else would notice a broken stream: without a new one the slot counts as abandoned, and a server that
// was restarted keeps WAL for a connector that only looks alive.
func (r *reader) awaitStop(s stream) error {
	select {
	case <-r.schemaAgain():
		return nil
	case <-r.c.stopping:
		return r.finish(s)
	case <-r.c.life.Done():
		return r.c.life.Err()
	case err := <-r.c.ended:
		return err
	case <-s.Broken():
		_, err := s.Receive()
		return err
	case d := <-r.c.decided:
		if !r.snapshotHalt(d) {
			return r.awaitStop(s)
		}
		r.c.Decide(d) // for the row, when it is read again
		return nil
	}
}

// snapshotHalt reports whether a decision is about the row of the snapshot at which the reader is halted.
func (r *reader) snapshotHalt(d relay.Decision) bool {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.halted != nil && r.c.halted != nil && d.Of(r.c.halted.Position, r.c.halted.EventID)
}

// awaitConfirmed waits while more rows are unconfirmed than the window holds, acknowledged or not. While one partition
// is stuck, the other partitions would continue without end, and a crash would send all of that again. It waits between
// transactions only: within one, also one that a broken stream cut short, it could be waiting for that transaction's
// own commit.
//
// It also waits while Kafka has enough to do. More could only wait in memory.
func (r *reader) awaitConfirmed() error {
	for !r.tracker.Open() && (r.tracker.Unconfirmed() >= r.c.cfg.WindowRecords || r.ahead()) {
		if err := r.awaitKafka(); err != nil {
			return err
		}
	}
	return nil
}

// awaitKafka waits for an acknowledgement, for no longer than patience.
func (r *reader) awaitKafka() error {
	if err := r.c.sessionOver(); err != nil {
		return err
	}
	r.c.producer.Full()
	from := time.Now()
	defer func() { r.lead.wait(from, time.Now()) }()
	r.c.pausing.Store(true)
	defer r.c.pausing.Store(false)
	select {
	case <-r.c.moved:
	case <-time.After(patience):
		// The records of a transaction of Kafka are acknowledged together, so that more of them could only wait.
		r.overdue = !r.c.cfg.ExactlyOnce
	case <-r.c.stopping:
		return errStopping
	case <-r.c.life.Done():
		return r.c.life.Err()
	case <-r.c.currentStream().Broken():
		return errBroken
	}
	return nil
}

// patience is how long the reader waits for an acknowledgement before it fills the rest of the window: longer than a
// broker pauses now and then. A partition without a leader takes longer, and the others need not wait for it.
const patience = 500 * time.Millisecond

// ahead reports whether the reader's lead is as large as it may be.
func (r *reader) ahead() bool {
	if _, bytes := r.c.window.InUse(); bytes < r.lead.bound(r.c.producer.Partitions()) {
		r.overdue = false
		return false
	}
	return !r.overdue
}

// fullAgain is how often the producer hears that there is still no room. Each call ends a transaction only if that
// makes room, which it may not have done the time before.
const fullAgain = 10 * time.Millisecond

// acquire waits for room in the window.
func (r *reader) acquire(size int) error {
	if r.c.window.TryAcquire(size) {
		return nil
	}
	from := time.Now()
	defer func() { r.lead.wait(from, time.Now()) }()
	for {
		if err := r.c.sessionOver(); err != nil {
			return err
		}
		select {
		case <-r.c.currentStream().Broken():
			return errBroken
		default:
		}
		// The records that fill the window may still be in batches that wait for more records: without a flush there
		// may never be room.
		r.c.producer.Full()
		wait, end := context.WithTimeout(r.c.life, fullAgain)
		err := r.c.window.Acquire(wait, size)
		end()
		if err == nil || r.c.life.Err() != nil {
			return err
		}
	}
}
