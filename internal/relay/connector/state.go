package connector

import (
	"fmt"
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/internal/base/telemetry"
	"github.com/cdc-outbox/cdc-outbox/internal/relay"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

func (c *Connector) setState(s relay.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = c.state.To(s, time.Now())
}

func (c *Connector) setHalted(h *relay.HaltedRow) {
	c.mu.Lock()
	c.halted = h
	c.mu.Unlock()
	c.setState(relay.State{Name: relay.Halted, Reason: h.Message})
}

// haltAgain is for the reader that a new stream has brought back to the row at which it was halted. It is false if it
// was not halted.
func (c *Connector) haltAgain() bool {
	c.mu.Lock()
	h := c.halted
	c.mu.Unlock()
	if h == nil {
		return false
	}
	c.setState(relay.State{Name: relay.Halted, Reason: h.Message, Since: h.Since})
	return true
}

// setStream publishes the open stream to readers outside the reader's goroutine.
func (c *Connector) setStream(s stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		c.received, c.heard = c.stream.Received(), c.stream.LastHeard()
		c.ahead = time.Until(c.stream.ServerNow())
	}
	c.stream = s
}

// serverNow is the time by the clock that gives transactions their commit times: the two machines' clocks may differ by
// minutes, and an age must not.
func (c *Connector) serverNow() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		return c.stream.ServerNow()
	}
	return time.Now().Add(c.ahead)
}

func (c *Connector) currentStream() stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream
}

// lastOfStream is how far the stream was read and when Postgres was heard, of the open stream or the last one. Zero
// times are before the first.
func (c *Connector) lastOfStream() (received lsn.LSN, heard time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		return c.stream.Received(), c.stream.LastHeard()
	}
	return c.received, c.heard
}

// streamState follows the stream's own account of itself.
func (c *Connector) streamState(s replication.State) {
	c.mu.Lock()
	was := c.state.Name
	streamed := c.streamed
	if s.Phase == replication.Streaming {
		c.streamed = true
		c.barren = c.barren.next(s, c.mark(), time.Now())
	}
	c.mu.Unlock()
	next := relay.State{Name: relay.Streaming}
	switch s.Phase {
	case replication.Streaming:
		if streamed {
			c.cfg.Metrics.Reconnected(telemetry.Postgres)
		}
	case replication.WaitingForSlot:
		if c.isStopping() {
			c.end() // records in flight cannot be confirmed any more
		}
		c.loseTo(s)
		next.Name = relay.WaitingForSlot
		next.Reason = fmt.Sprintf("the slot is held by backend %d; this instance takes over when that backend "+
			"releases it",
			s.HolderPID)
	case replication.Connecting:
		if was == relay.WaitingForSlot {
			return // looking again whether the slot is free
		}
		next.Name = c.unconnected(streamed)
	default:
		next.Name = c.unconnected(streamed)
		if s.Err != nil {
			why, remedy := fault.Split(s.Err)
			next.Reason, next.Next, next.Commands = why, remedy.Next, remedy.Commands
		}
	}
	c.setState(next)
}

func (c *Connector) waitsForSlot() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Name == relay.WaitingForSlot
}

func (c *Connector) unconnected(streamed bool) relay.StateName {
	if streamed {
		return relay.Reconnecting
	}
	return relay.Starting
}
