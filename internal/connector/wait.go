package connector

import (
	"context"
	"errors"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/kafka"
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
	case <-r.c.stopping:
		return r.finish(s)
	case <-r.c.life.Done():
		return r.c.life.Err()
	case <-r.c.fenced:
		return kafka.ErrFenced
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
// With exactly_once it also waits while there is enough for two Kafka transactions, of which one is being committed.
// More could only wait in memory.
func (r *reader) awaitConfirmed() error {
	for !r.tracker.Open() && (r.tracker.Unconfirmed() >= r.c.cfg.WindowRecords || r.c.aheadOfCommit()) {
		if r.c.outranked.Load() {
			return kafka.ErrFenced
		}
		r.c.producer.Commit()
		select {
		case <-r.c.moved:
		case <-r.c.life.Done():
			return r.c.life.Err()
		case <-r.c.currentStream().Broken():
			return errBroken
		}
	}
	return nil
}

// aheadShare is the part of the window that exactly_once fills before it waits for a commit. A quarter of the default,
// 8 MiB, is two Kafka transactions: 80 MB/s where a commit takes 100 ms.
const aheadShare = 4

func (c *Connector) aheadOfCommit() bool {
	if c.cfg.Kafka.Transactions == nil {
		return false
	}
	_, bytes := c.window.InUse()
	return bytes >= c.cfg.WindowBytes/aheadShare
}

// fullAgain is how often the producer hears that there is still no room. Each call ends a transaction only where that
// makes room, which it may not have done the time before.
const fullAgain = 10 * time.Millisecond

// acquire waits for room in the window.
func (r *reader) acquire(size int) error {
	for !r.c.window.TryAcquire(size) {
		if r.c.outranked.Load() {
			return kafka.ErrFenced
		}
		select {
		case <-r.c.currentStream().Broken():
			return errBroken
		default:
		}
		// What fills the window may still be in batches that wait for more records: without a flush there may never be
		// room.
		r.c.producer.Full()
		wait, end := context.WithTimeout(r.c.life, fullAgain)
		err := r.c.window.Acquire(wait, size)
		end()
		if err == nil || r.c.life.Err() != nil {
			return err
		}
	}
	return nil
}
