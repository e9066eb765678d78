package connector

import (
	"time"

	"github.com/cdc-outbox/cdc-outbox/internal/telemetry"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// setState keeps the time of the first entry, and lets nothing but the end follow on Draining.
func (c *Connector) setState(s State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Name == Draining && s.Name != Stopped {
		return
	}
	if s.Since.IsZero() {
		s.Since = time.Now()
	}
	if s.Name == c.state.Name {
		s.Since = c.state.Since
	}
	c.state = s
}

func (c *Connector) setHalted(h *HaltedRow) {
	c.mu.Lock()
	c.halted = h
	c.mu.Unlock()
	c.setState(State{Name: Halted, Reason: h.Message})
}

// setStream publishes the open stream to those who look at it from outside.
func (c *Connector) setStream(s stream) {
	c.mu.Lock()
	c.stream = s
	c.mu.Unlock()
}

func (c *Connector) currentStream() stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream
}

// streamState follows the stream's own account of itself.
func (c *Connector) streamState(s replication.State) {
	c.mu.Lock()
	was := c.state.Name
	c.mu.Unlock()
	name := stateOf(s)
	if name == Reconnecting && was == Starting {
		name = Starting // it never streamed, so there is nothing to re-connect
	}
	if name == Reconnecting && was == Streaming {
		c.cfg.Metrics.Reconnected(telemetry.Postgres)
	}
	c.setState(State{Name: name, Reason: s.Reason})
}
