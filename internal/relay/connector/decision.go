package connector

import (
	"errors"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/badrow"
)

// Decide hands over an operator's decision about the row at which the connector is halted. A decision about any other
// row is dropped. It is safe for concurrent use, and may be called again and again.
func (c *Connector) Decide(d relay.Decision) {
	select {
	case <-c.decided: // an earlier one that the reader did not need
	default:
	}
	select {
	case c.decided <- d:
	default: // another one was faster
	}
}

// Pause stops reading until it is called with nil. The slot is held meanwhile, and keeps WAL. It is safe for concurrent
// use, and may be called again and again.
func (c *Connector) Pause(p *relay.Pause) {
	if was := c.paused.Swap(p); (was == nil) == (p == nil) {
		return
	}
	select {
	case c.switched <- struct{}{}:
	default:
	}
	if s := c.currentStream(); p != nil && s != nil {
		s.Interrupt()
	}
}

// Halted returns the row at which the connector is halted, if it is, and whether it holds the slot.
func (c *Connector) Halted() (all []*relay.HaltedRow, holds bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.halted != nil {
		all = append(all, c.halted)
	}
	return all, c.stream != nil
}

// WaitsForSlot reports whether another instance holds the slot.
func (c *Connector) WaitsForSlot() bool { return c.waitsForSlot() }

// Confirmed is the LSN up to which everything is in Kafka.
func (c *Connector) Confirmed() lsn.LSN { return c.confirmed() }

// obeyPause waits while a pause lasts or until a stop is asked for. A stop reads an open transaction to its end, also
// if the pause began within it.
func (r *reader) obeyPause(s stream) error {
	if r.c.paused.Load() == nil || r.c.isStopping() && r.tracker.Open() {
		return nil
	}
	if err := r.awaitResume(s); !errors.Is(err, errStopping) {
		return err
	}
	return nil
}

// awaitResume keeps the reader from reading while a pause lasts. Records that were read are sent and confirmed
// meanwhile.
func (r *reader) awaitResume(s stream) error {
	c := r.c
	p := c.paused.Load()
	if p == nil {
		return nil
	}
	if p.Unread == nil {
		c.log.Warn("paused by an operator; nothing is read, and the slot keeps WAL",
			append(telemetry.RemedyFields(p.State().Remedy()), zap.String(logkey.Reason, p.Reason),
				zap.Time(logkey.Since, p.Since))...)
	} else {
		c.log.Warn("it is not known whether an operator has paused the relay; nothing is read until it is",
			telemetry.ErrorFields(p.Unread)...)
	}
	for ; p != nil; p = c.paused.Load() {
		c.setState(p.State())
		c.producer.Commit()
		select {
		case <-c.switched:
		case <-c.stopping:
			return errStopping
		case err := <-c.ended:
			return err
		case <-s.Broken():
			return errBroken
		case <-c.life.Done():
			return c.life.Err()
		}
	}
	c.producer.Refresh()
	c.setState(relay.State{Name: relay.Streaming})
	c.log.Info("no pause is in effect any more; reading continues")
	return nil
}

// awaitDecision keeps the reader at a halted row until an operator decides about that very row. A row that halted for
// its schema is routed again from time to time.
func (r *reader) awaitDecision(bad badrow.Row) (relay.Decision, error) {
	again := r.schemaAgain()
	for {
		select {
		case <-again:
			return relay.Decision{}, errLookAgain
		case d := <-r.c.decided:
			if d.Of(string(bad.Position), bad.EventID) {
				return d, nil
			}
		case <-r.c.stopping:
			return relay.Decision{}, errHalted
		case err := <-r.c.ended:
			return relay.Decision{}, err
		case <-r.c.currentStream().Broken():
			return relay.Decision{}, errBroken
		case <-r.c.life.Done():
			return relay.Decision{}, r.c.life.Err()
		}
	}
}

// decidedFor is a decision about the row that has come already.
func (r *reader) decidedFor(bad badrow.Row) (relay.Decision, bool) {
	select {
	case d := <-r.c.decided:
		return d, d.Of(string(bad.Position), bad.EventID)
	default:
		return relay.Decision{}, false
	}
}

// goOn ends the halt at a row about which an operator has decided.
func (r *reader) goOn(bad *badrow.Row, d relay.Decision) {
	bad.Decided = d.By
	r.halted = nil
	c := r.c
	c.mu.Lock()
	c.halted = nil
	c.mu.Unlock()
	next := relay.Streaming
	if r.snapshot {
		next = relay.Snapshotting
	}
	c.setState(relay.State{Name: next})
	c.log.Warn("the halted row is passed, as an operator decided", append(bad.Fields(),
		zap.String(logkey.Sentence, string(d.Action)+", by "+d.By+": "+d.Reason))...)
}
