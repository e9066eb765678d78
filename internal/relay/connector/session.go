package connector

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cdc-outbox/cdc-outbox/internal/base/logkey"
	"github.com/cdc-outbox/cdc-outbox/internal/base/lsn"
	"github.com/cdc-outbox/cdc-outbox/offsets"
	"github.com/cdc-outbox/cdc-outbox/replication"
)

// replicationConfig is the caller's with the connector's hooks in it.
func (c *Connector) replicationConfig() replication.Config {
	rc := c.cfg.Replication
	rc.Confirmed = func() lsn.LSN { return c.confirmed() }
	rc.IdleAsk = min(5*time.Second, c.cfg.Stall/3) // an idle server must not look silent to Ready
	rc.From = c.from
	rc.Withhold = true
	rc.OnIdentity = c.identified
	rc.OnState = c.streamState
	rc.OnWait = c.producer.Flush
	rc.Marked = c.marked
	rc.PassOver = c.reader.isForeign
	return rc
}

// runStreams is replication.Run with the reader's view of a stream. The stream's own context is dropped on purpose: the
// reader's waits must not end with the stream (rule 1), and Receive reports its end anyway.
func runStreams(ctx context.Context, cfg replication.Config, consume func(stream) error) error {
	return replication.Run(ctx, cfg, func(_ context.Context, s *replication.Stream) error { return consume(s) })
}

// identified hears who the server is before streaming starts, and decides whether the positions at hand still mean
// anything there.
func (c *Connector) identified(id replication.Identity) error {
	c.mu.Lock()
	was := c.identity
	c.identity = id
	c.mu.Unlock()

	slot := id.ConfirmedFlush
	t := c.tracker.Load()
	if t == nil {
		c.tracker.Store(offsets.NewTracker(slot))
		return nil
	}
	last, _ := t.Last()
	switch {
	case endsBefore(id, last):
		return c.putBack(last, fmt.Errorf("its log ends at %s, and this connector has received a transaction beyond "+
			"that", id.WALEnd))
	case id.TimelineChanged:
		c.reader.before = replication.MarkOf(was.SystemID, was.Timeline, last, replication.Mark{})
		c.lose("timeline changed")
	case slot > t.Confirmed():
		c.reader.fences.inARow = 0
		c.lose("another instance moved the slot")
	case c.sessionOver() != nil:
		c.lose(c.sessionOver().Error())
	}
	if !c.reader.lost {
		return nil
	}
	t.Rewind(slot)
	c.log.Info("positions start over at the slot's confirmed position",
		zap.String(logkey.Slot, c.cfg.Replication.Slot), zap.String(logkey.LSN, slot.String()),
		zap.Int32(logkey.Timeline, id.Timeline))
	return nil
}
