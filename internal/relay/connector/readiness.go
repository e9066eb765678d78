package connector

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/human"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
)

// Ready reports whether the relay does its work: streaming, heard from Postgres and acknowledged by Kafka within the
// limit. The sentence names the missing part, or says that none is.
func (c *Connector) Ready() (bool, string) {
	c.mu.Lock()
	state, s, halted, fencing, series := c.state, c.stream, c.halted, c.fencing, c.barren
	c.mu.Unlock()
	if halted != nil {
		if halted.EventID == "" {
			return false, fmt.Sprintf("halted at LSN %s: %s", halted.LSN, halted.Message)
		}
		return false, fmt.Sprintf("halted at event %s, LSN %s: %s", halted.EventID, halted.LSN, halted.Message)
	}
	if p := c.snapshot.status(); p != nil && state.Name == relay.Snapshotting {
		return false, fmt.Sprintf("publishing the rows that were in the outbox before the slot: %d of %d are done",
			p.Done, p.Total)
	}
	if state.Name != relay.Streaming || s == nil {
		if state.Reason != "" {
			return false, fmt.Sprintf("%s: %s", state.Name, state.Reason)
		}
		if state.Name == relay.Streaming {
			return false, "the stream to Postgres is not open" // it broke this moment, or is about to be read
		}
		return false, string(state.Name)
	}
	if fencing {
		return false, c.fencingReason()
	}
	if series.lasts(c.mark(), s.Received()) {
		return false, series.reason()
	}
	if c.cfg.Snapshot != nil && !c.snapshot.published.Load() {
		return false, "looking for rows that were in the outbox before the slot"
	}
	now := time.Now()
	if since, why := s.HeldBack(); !since.IsZero() && now.Sub(since) > c.cfg.Stall {
		said, _ := fault.Split(why)
		return false, fmt.Sprintf("the slot is held back for %s: %s", human.Duration(now.Sub(since)), said)
	}
	if age := c.progress.age(now); age > c.cfg.Stall {
		return false, c.stalledReason(age)
	}
	age, why := c.readerWait(now)
	if age > c.cfg.Stall {
		return false, why
	}
	// While the window is full, or something waits for standbys or for a schema, the reader does not listen, so silence
	// says nothing about Postgres then; but then the checks above report it.
	if age := now.Sub(s.LastHeard()); age > c.cfg.Stall && c.idle() && why == "" {
		return false, fmt.Sprintf("nothing was heard from Postgres for %s", human.Duration(age))
	}
	return true, "streaming"
}

// readerWait is for how long the reader has waited for something that is neither Postgres nor Kafka, 0 if it does not,
// and why.
func (c *Connector) readerWait(now time.Time) (time.Duration, string) {
	if age, why := c.standbyWait(now); why != "" {
		return age, why
	}
	return c.schemaWait(now)
}

// Waits reports whether another instance holds the slot and this one would take over, with the sentence of Ready.
func (c *Connector) Waits() (why string, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%s: %s", c.state.Name, c.state.Reason), c.state.Name == relay.WaitingForSlot && c.halted == nil
}

func (c *Connector) idle() bool {
	records, _ := c.window.InUse()
	return records == 0
}

func (c *Connector) stalledReason(age time.Duration) string {
	if _, waits := c.schemaWait(time.Now()); waits != "" {
		return waits
	}
	why := fmt.Sprintf("Kafka has not acknowledged the oldest event for %s", human.Duration(age))
	if t := c.producer.Trouble(); len(t) > 0 {
		why += ": " + t[0].Wait().Sentence()
	}
	return why
}
